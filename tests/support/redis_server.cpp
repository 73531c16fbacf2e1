// SPDX-License-Identifier: Apache-2.0
#include "support/redis_server.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>

#include <arpa/inet.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dlock::testing {
namespace {

constexpr auto start_limit = std::chrono::seconds(20);

std::filesystem::path make_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "dlock-redis-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    return name;
}

/// A CA and, signed by it, a server certificate for localhost and 127.0.0.1 and one for clients.
void make_certificates(const std::filesystem::path& folder) {
    const std::string script = R"(
set -e
key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
for ca in ca other; do openssl req -x509 $key -days 2 -subj "/CN=test $ca" -keyout $ca.key -out $ca.crt; done
printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > server.ext
printf 'subjectAltName=DNS:client' > client.ext
for who in server client; do
  openssl req $key -subj "/CN=$who" -keyout $who.key -out $who.csr
  openssl x509 -req -in $who.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile $who.ext \
    -out $who.crt
done
)";
    std::ofstream(folder / "certificates.sh") << script;
    const std::string run = "cd '" + folder.string() + "' && sh certificates.sh > certificates.log 2>&1";
    if (std::system(run.c_str()) != 0) throw std::runtime_error("openssl could not make certificates");
}

pid_t launch(const std::string& config, int out) {
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed test leaves no server behind
    if (getppid() != parent) _exit(1);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execlp("redis-server", "redis-server", config.c_str(), nullptr);
    constexpr std::string_view why = "redis-server cannot be executed\n";
    static_cast<void>(!write(STDERR_FILENO, why.data(), why.size()));
    _exit(127);
}

std::string to_text(const redisReply& reply) {
    switch (reply.type) {
        case REDIS_REPLY_INTEGER:
            return std::to_string(reply.integer);
        case REDIS_REPLY_NIL:
            return "(nil)";
        case REDIS_REPLY_ARRAY: {
            std::string all;
            for (std::size_t i = 0; i < reply.elements; ++i)
                all += (i == 0 ? "" : "\n") + to_text(*reply.element[i]);
            return all;
        }
        default:
            return {reply.str, reply.len};
    }
}

}  // namespace

std::uint16_t free_port() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    close(fd);
    if (!bound) throw std::runtime_error("no free port");
    return ntohs(address.sin_port);
}

RedisServer::RedisServer(RedisOptions options) : options_(std::move(options)), folder_(make_folder()) {
    port_ = free_port();
    if (options_.tls) {
        tls_port_ = free_port();
        make_certificates(folder_);
    }
    write_config();
    start();
}

RedisServer::~RedisServer() {
    stop();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

void RedisServer::write_config() const {
    std::ofstream config(folder_ / "redis.conf");
    config << "bind 127.0.0.1\nport " << port_ << "\ndir " << folder_.string()
           << "\nsave \"\"\ndaemonize no\n"
           << "appendonly " << (options_.keeps_data ? "yes\nappendfsync always" : "no") << '\n';
    if (!options_.password.empty()) config << "requirepass " << options_.password << '\n';
    for (const std::string& user : options_.users) config << "user " << user << '\n';
    if (options_.replica_of) config << "replicaof 127.0.0.1 " << *options_.replica_of << '\n';
    if (options_.tls) {
        config << "tls-port " << tls_port_ << "\ntls-cert-file server.crt\ntls-key-file server.key\n"
               << "tls-ca-cert-file ca.crt\ntls-auth-clients optional\n";
    }
    for (const std::string& line : options_.more) config << line << '\n';
}

void RedisServer::start() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
    log_.clear();
    log_ended_ = false;
    pid_ = launch((folder_ / "redis.conf").string(), ends[1]);
    close(ends[1]);
    log_reader_ = std::thread([this, fd = ends[0]] { read_log(fd); });
    if (wait_for_log("Ready to accept connections")) return;
    stop();
    throw std::runtime_error("redis-server did not start: " + log_);
}

void RedisServer::stop() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    if (log_reader_.joinable()) log_reader_.join();
}

void RedisServer::read_log(int fd) {
    std::array<char, 4096> buffer;
    for (;;) {
        const ssize_t n = read(fd, buffer.data(), buffer.size());
        const std::lock_guard lock(mutex_);
        if (n > 0)
            log_.append(buffer.data(), static_cast<std::size_t>(n));
        else
            log_ended_ = true;
        changed_.notify_all();
        if (n <= 0) break;
    }
    close(fd);
}

bool RedisServer::wait_for_log(const std::string& words) {
    std::unique_lock lock(mutex_);
    const auto there = [&] { return log_.find(words) != std::string::npos; };
    changed_.wait_for(lock, start_limit, [&] { return there() || log_ended_; });
    return there();
}

void RedisServer::freeze() const {
    if (pid_ <= 0) throw std::logic_error("the test server does not run");  // kill(-1) is for every process
    kill(pid_, SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);  // it has stopped when this returns
}

void RedisServer::thaw() const {
    if (pid_ > 0) kill(pid_, SIGCONT);
}

std::string RedisServer::command(const std::vector<std::string>& parts) const {
    const std::unique_ptr<redisContext, decltype(&redisFree)> context(
        redisConnectWithTimeout("127.0.0.1", port_, {20, 0}), redisFree);
    if (context == nullptr || context->err != 0)
        throw std::runtime_error("cannot connect to the test server");
    redisSetTimeout(context.get(), {20, 0});
    const auto run = [&](const std::vector<std::string>& words) {
        std::vector<const char*> argv;
        std::vector<std::size_t> sizes;
        for (const std::string& word : words) {
            argv.push_back(word.data());
            sizes.push_back(word.size());
        }
        void* reply =
            redisCommandArgv(context.get(), static_cast<int>(argv.size()), argv.data(), sizes.data());
        if (reply == nullptr) throw std::runtime_error(std::string("no answer: ") + context->errstr);
        const std::unique_ptr<void, decltype(&freeReplyObject)> owner(reply, freeReplyObject);
        return to_text(*static_cast<redisReply*>(reply));
    };
    if (!options_.password.empty()) run({"AUTH", options_.password});
    return run(parts);
}

long long RedisServer::info(const std::string& field) const {
    const std::string all = command({"INFO", "everything"});
    const std::size_t found = all.find("\n" + field + ":");
    if (found == std::string::npos) throw std::runtime_error("INFO has no " + field);
    return std::stoll(all.substr(found + field.size() + 2));
}

}  // namespace dlock::testing
