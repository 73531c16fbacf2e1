// SPDX-License-Identifier: Apache-2.0
#include "store/redis/renewals.hpp"

#include <algorithm>

#include "store/redis/answers.hpp"

namespace dlock::store::redis {

std::vector<std::vector<std::size_t>> split(const std::vector<std::size_t>& positions) {
    std::vector<std::vector<std::size_t>> parts;
    for (auto first = positions.begin(); first != positions.end();) {
        const auto size = std::min<std::ptrdiff_t>(positions.end() - first, batch_size);
        parts.emplace_back(first, first + size);
        first += size;
    }
    return parts;
}

bool letters(const redisReply& reply, const std::vector<std::size_t>& positions,
             std::vector<RenewAnswer>& answers) {
    const std::string_view all = text(reply);
    if (!is_string(reply) || all.size() != positions.size()) return false;
    for (std::size_t i = 0; i < positions.size(); ++i)
        answers[positions[i]].renewal = all[i] == 'r' ? Renewal::renewed : Renewal::lost;
    return true;
}

void send_renewals(Links& links, const Call& call, Renewals renewals, std::vector<std::size_t> positions,
                   std::shared_ptr<Gather> gather) {
    auto done = [positions = std::move(positions), gather = std::move(gather),
                 fill = renewals.fill](const Result<ReplyPtr>& reply) {
        const bool good = reply && fill(**reply, positions, gather->answers);
        if (!good)
            for (const std::size_t i : positions)
                gather->answers[i].detail = reply ? "unexpected answer" : reply.error().detail;
        gather->filled(positions.size());
    };
    const auto shape = [](const redisReply& reply) { return is_string(reply) || is_array(reply); };
    links.call(Lane::beat, call.route,
               script_request(renewals.command, renewals.script, call, shape, std::move(done)));
}

}  // namespace dlock::store::redis
