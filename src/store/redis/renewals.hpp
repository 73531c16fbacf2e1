// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "store/redis/links.hpp"

/// Renewals go out as few commands, each for many items, pipelined.
namespace dlock::store::redis {

/// The answers of one renew call, from several commands.
class Gather {
public:
    Gather(std::size_t items, Completion<std::vector<RenewAnswer>> done)
        : answers(items), done_(std::move(done)) {
        if (items == 0) done_({});
    }
    std::vector<RenewAnswer> answers;

    /// So many items have their answer; the last ones complete the call.
    void filled(std::size_t items) {
        if (filled_.fetch_add(items, std::memory_order_acq_rel) + items == answers.size())
            done_(std::move(answers));
    }

private:
    std::atomic<std::size_t> filled_{0};
    Completion<std::vector<RenewAnswer>> done_;
};

/// Long enough that the call's own cost vanishes, short enough that others on the server hardly wait.
inline constexpr std::size_t batch_size = 200;

std::vector<std::vector<std::size_t>> split(const std::vector<std::size_t>& positions);

struct Renewals {
    Command command;
    const Script& script;
    /// Puts the reply's answers at their positions; false when it has another number of them.
    bool (*fill)(const redisReply&, const std::vector<std::size_t>&, std::vector<RenewAnswer>&);
};
/// Fills from "rl...": a letter for each item, r renewed, l lost.
bool letters(const redisReply& reply, const std::vector<std::size_t>& positions,
             std::vector<RenewAnswer>& answers);

void send_renewals(Links& links, const Call& call, Renewals renewals, std::vector<std::size_t> positions,
                   std::shared_ptr<Gather> gather);

}  // namespace dlock::store::redis
