// SPDX-License-Identifier: Apache-2.0
#include "store/redis/links.hpp"

namespace dlock::store::redis {
namespace {

using namespace std::chrono_literals;

/// Calls that ask for a fresh connection this close together share one: none of their answers is overdue yet.
constexpr auto together = 20ms;

}  // namespace

Links::Links(Server server, const StoreEnv& env)
    : loop_(env.loop),
      server_(std::make_shared<const Server>(std::move(server))),
      call_timeout_(env.call_timeout) {}

void Links::close() {
    const std::lock_guard lock(mutex_);
    for (const auto& connection : retired_) connection->close();
    for (const auto& connection : {main_, beat_, side_, fresh_})
        if (connection != nullptr) connection->close();
}

void Links::call(Lane lane, Route route, Request request) { pick(lane, route)->call(std::move(request)); }

std::shared_ptr<Connection> Links::make(Connection::Push push, Readers readers) const {
    return Connection::make(loop_, server_, call_timeout_, std::move(push), readers);
}

std::shared_ptr<Connection> Links::pick(Lane lane, Route route) {
    const std::lock_guard lock(mutex_);
    if (route == Route::fresh) return fresh();
    auto& connection = lane == Lane::main ? main_ : lane == Lane::beat ? beat_ : side_;
    // Renewals do not depend on how a caller's thread is scheduled.
    const Readers readers = lane == Lane::main ? Readers::callers : Readers::loop;
    if (connection == nullptr) connection = make({}, readers);
    return connection;
}

std::shared_ptr<Connection> Links::fresh() {
    const TimePoint now = loop_.now();
    std::erase_if(retired_, [](const auto& connection) { return connection->closed(); });
    const bool owes = fresh_ != nullptr && !fresh_->idle();
    if (owes && now - fresh_since_ >= together) {
        fresh_->retire();
        retired_.push_back(std::move(fresh_));
        fresh_ = nullptr;
    }
    if (fresh_ == nullptr) fresh_ = make();
    if (!owes || fresh_->idle()) fresh_since_ = now;
    return fresh_;
}

}  // namespace dlock::store::redis
