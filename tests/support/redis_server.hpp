// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace dlock::testing {

/// A port on 127.0.0.1 that nobody listens on just now.
std::uint16_t free_port();

struct RedisOptions {
    std::string password;                     ///< of the default user
    std::vector<std::string> users;           ///< "app on >secret ~dlock:* &dlock:* +@all"
    std::optional<std::uint16_t> replica_of;  ///< a port on 127.0.0.1
    bool tls = false;                         ///< a second port; certificates in the server's folder
    bool keeps_data = false;                  ///< restart() comes back with the records
    std::vector<std::string> more;            ///< lines for redis.conf
};

/// A real redis-server on a free port of 127.0.0.1, with a folder of its own, ready when the constructor
/// returns. Throws std::runtime_error with the server's words when it does not start. Ended, by its pid, with
/// the object.
class RedisServer {
public:
    explicit RedisServer(RedisOptions options = {});
    RedisServer(const RedisServer&) = delete;
    RedisServer& operator=(const RedisServer&) = delete;
    ~RedisServer();

    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] std::uint16_t tls_port() const { return tls_port_; }
    [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
    /// `ca.crt`, `client.crt` and `client.key`; also `other.crt`, a CA that signed nothing here.
    [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }

    /// Kills it. start() brings it back on the same ports, with its data only if `keeps_data`.
    void stop();
    void start();
    void restart() {
        stop();
        start();
    }
    /// SIGSTOP and SIGCONT: connections stay, nothing is answered.
    void freeze() const;
    void thaw() const;

    /// One command as an administrator; the reply as text (arrays: elements on lines of their own, nil:
    /// "(nil)").
    std::string command(const std::vector<std::string>& parts) const;
    /// INFO's number, for example "total_commands_processed".
    [[nodiscard]] long long info(const std::string& field) const;
    /// Until a line with these words is in the server's log. False at the deadline.
    bool wait_for_log(const std::string& words);

private:
    void write_config() const;
    void read_log(int fd);

    const RedisOptions options_;
    std::filesystem::path folder_;
    std::uint16_t port_ = 0;
    std::uint16_t tls_port_ = 0;
    pid_t pid_ = -1;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::string log_;
    bool log_ended_ = false;
    std::thread log_reader_;
};

}  // namespace dlock::testing
