// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dlock/dlock.hpp"

/// How tests wait: for events, with a deadline that only a broken product or a stuck machine reaches.
namespace dlock::testing {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// The deadline of everything that must happen but has no promise of when.
inline constexpr milliseconds patience = 20s;

/// "contended", "lost", ... for the enumerators of errc.
std::string word(const Error& error);

inline milliseconds since(TimePoint start) {
    return std::chrono::duration_cast<milliseconds>(BootClock::now() - start);
}

/// Keeps all events of a client and lets a test wait for them.
class Recorder final : public Observer {
public:
    void on_event(const Event& event) noexcept override;

    /// Until `count` events of the kind (of the key, where given) have come in all. False at the deadline.
    bool wait_for(Event::Kind kind, std::size_t count, const Key* key = nullptr,
                  milliseconds limit = patience);
    [[nodiscard]] std::size_t count(Event::Kind kind, const Key* key = nullptr) const;
    /// The last event of the kind.
    [[nodiscard]] std::optional<Event> last(Event::Kind kind) const;

private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Event> events_;
};

/// One acquisition that runs while the test goes on.
class Pending {
public:
    Pending(const Client& client, const Key& key, AcquireOptions options, Context context = {});

    void cancel() { stop_.request_stop(); }
    [[nodiscard]] bool ready() const { return answer_.wait_for(0s) == std::future_status::ready; }
    /// The answer; `store_error` when there was none in time.
    Result<Lease> get(milliseconds limit = patience);

private:
    std::stop_source stop_;
    std::future<Result<Lease>> answer_;
};

/// The moment and the reason of a loss, as the lost() token tells it.
class LossWatch {
public:
    explicit LossWatch(const Lease& lease);
    /// When it was told; nothing at the deadline.
    std::optional<TimePoint> wait(milliseconds limit = patience);
    [[nodiscard]] bool told() const { return moment_.wait_for(0s) == std::future_status::ready; }

private:
    std::promise<TimePoint> promise_;
    std::shared_future<TimePoint> moment_;
    std::stop_callback<std::function<void()>> callback_;
};

}  // namespace dlock::testing
