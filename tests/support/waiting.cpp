// SPDX-License-Identifier: Apache-2.0
#include "support/waiting.hpp"

#include <algorithm>
#include <array>

namespace dlock::testing {

std::string word(const Error& error) {
    static constexpr std::array names{
        "contended",      "timed_out",       "cancelled",        "lost",
        "not_owner",      "would_deadlock",  "unknown_outcome",  "unavailable",
        "unauthorized",   "unsupported",     "invalid_argument", "limit_differs",
        "foreign_record", "not_initialised", "store_error"};
    const auto index = static_cast<std::size_t>(error.code.value() - 1);
    const bool ours = error.code.category() == dlock_category() && index < names.size();
    return ours ? names.at(index) : error.code.message();
}

namespace {

std::size_t matching(const std::vector<Event>& events, Event::Kind kind, const Key* key) {
    return static_cast<std::size_t>(std::count_if(events.begin(), events.end(), [&](const Event& event) {
        return event.kind == kind && (key == nullptr || event.key == *key);
    }));
}

}  // namespace

void Recorder::on_event(const Event& event) noexcept {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    changed_.notify_all();
}

bool Recorder::wait_for(Event::Kind kind, std::size_t count, const Key* key, milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return matching(events_, kind, key) >= count; });
}

std::size_t Recorder::count(Event::Kind kind, const Key* key) const {
    const std::lock_guard lock(mutex_);
    return matching(events_, kind, key);
}

std::optional<Event> Recorder::last(Event::Kind kind) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(events_.rbegin(), events_.rend(),
                                    [kind](const Event& event) { return event.kind == kind; });
    if (found == events_.rend()) return std::nullopt;
    return *found;
}

Pending::Pending(const Client& client, const Key& key, AcquireOptions options, Context context) {
    const auto promise = std::make_shared<std::promise<Result<Lease>>>();
    answer_ = promise->get_future();
    context.stop = stop_.get_token();
    client.mutex(key).start_acquire(options, std::move(context), [promise](Result<Lease> answer) {
        promise->set_value(std::move(answer));
    });
}

Result<Lease> Pending::get(milliseconds limit) {
    if (answer_.wait_for(limit) != std::future_status::ready)
        return Error(errc::store_error, "no answer in time");
    return answer_.get();
}

LossWatch::LossWatch(const Lease& lease)
    : moment_(promise_.get_future().share()),
      callback_(lease.lost(), std::function<void()>([this] { promise_.set_value(BootClock::now()); })) {}

std::optional<TimePoint> LossWatch::wait(milliseconds limit) {
    if (moment_.wait_for(limit) != std::future_status::ready) return std::nullopt;
    return moment_.get();
}

}  // namespace dlock::testing
