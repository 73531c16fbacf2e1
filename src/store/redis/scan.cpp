// SPDX-License-Identifier: Apache-2.0
#include "store/redis/scan.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace dlock::store::redis {
namespace {

constexpr std::string_view scan_count = "500";

bool is_scan_answer(const redisReply& reply) {
    return is_array(reply) && reply.elements == 2 && is_string(at(reply, 0)) && is_array(at(reply, 1));
}

bool all_digits(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void Listing::run(std::shared_ptr<Links> links, Loop& loop, const Filter& filter, std::string pattern,
                  Call call, Look look, Completion<Result<Page>> done) {
    const auto listing = std::make_shared<Listing>(std::move(links), loop, filter, std::move(pattern), call,
                                                   std::move(look), std::move(done));
    if (filter.limit < 1 || filter.limit > 10000)
        return listing->done_(Error(errc::invalid_argument, "limit: give 1 to 10000 rows a page"));
    if (!listing->parse_cursor(filter.cursor))
        return listing->done_(Error(errc::invalid_argument, "cursor: not one that a page before has given"));
    listing->step();
}

Listing::Listing(std::shared_ptr<Links> links, Loop& loop, const Filter& filter, std::string pattern,
                 Call call, Look look, Completion<Result<Page>> done)
    : links_(std::move(links)),
      loop_(loop),
      filter_(filter),
      pattern_(std::move(pattern)),
      call_(call),
      look_(std::move(look)),
      done_(std::move(done)),
      half_time_(loop.now() + (call.deadline - loop.now()) / 2) {}

bool Listing::parse_cursor(const std::string& cursor) {
    if (cursor.empty()) return true;
    const std::size_t colon = cursor.find(':');
    at_ = cursor.substr(0, colon);
    if (colon == std::string::npos) return all_digits(at_);
    const auto behind = core::from_base64url(std::string_view(cursor).substr(colon + 1));
    if (behind) behind_ = *behind;
    return all_digits(at_) && behind.has_value();
}

void Listing::step() {
    Request request;
    request.wire = Command({"SCAN", at_, "MATCH", pattern_, "COUNT", scan_count}).take();
    request.deadline = call_.deadline;
    request.shape = is_scan_answer;
    request.done = [self = shared_from_this()](const Result<ReplyPtr>& reply) {
        if (!reply) return self->done_(reply.error());
        self->scanned(**reply);
    };
    links_->call(Lane::side, call_.route, std::move(request));
}

void Listing::scanned(const redisReply& reply) {
    following_ = text(at(reply, 0));
    names_.clear();
    const redisReply& list = at(reply, 1);
    for (std::size_t i = 0; i < list.elements; ++i)
        if (text(at(list, i)) > behind_) names_.emplace_back(text(at(list, i)));
    std::sort(names_.begin(), names_.end());
    names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
    if (names_.empty()) return looked({});
    look_(names_, [self = shared_from_this()](Result<std::vector<LockInfo>> rows) {
        if (!rows) return self->done_(rows.error());
        self->looked(*std::move(rows));
    });
}

void Listing::looked(std::vector<LockInfo> rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        LockInfo& row = rows[i];
        if (row.kind.empty() && row.problem.empty()) continue;
        if (filter_.held_only && row.holders.empty() && row.problem.empty()) continue;
        if (page_.locks.size() == filter_.limit) return finish(at_ + ":" + core::to_base64url(names_[i - 1]));
        page_.locks.push_back(std::move(row));
    }
    behind_.clear();
    if (following_ == "0") return finish({});
    if (page_.locks.size() == filter_.limit || loop_.now() >= half_time_) return finish(following_);
    at_ = following_;
    step();
}

void Listing::finish(std::string next) {
    page_.next = std::move(next);
    done_(std::move(page_));
}

}  // namespace dlock::store::redis
