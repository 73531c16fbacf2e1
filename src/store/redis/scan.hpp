// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/redis/links.hpp"

namespace dlock::store::redis {

/// Pages of a listing over SCAN. A step of SCAN may bring more names than a page has room for; the cursor
/// then says behind which name of that step, in byte order, the next page goes on.
class Listing : public std::enable_shared_from_this<Listing> {
public:
    using Rows = std::function<void(Result<std::vector<LockInfo>>)>;
    /// Makes rows of the names; a row with an empty `kind` and no problem is none. As many rows as names.
    using Look = std::function<void(const std::vector<std::string>& names, Rows done)>;

    /// `invalid_argument` for a bad cursor or limit.
    static void run(std::shared_ptr<Links> links, Loop& loop, const Filter& filter, std::string pattern,
                    Call call, Look look, Completion<Result<Page>> done);

    Listing(std::shared_ptr<Links> links, Loop& loop, const Filter& filter, std::string pattern, Call call,
            Look look, Completion<Result<Page>> done);

private:
    bool parse_cursor(const std::string& cursor);
    void step();
    void scanned(const redisReply& reply);
    void looked(std::vector<LockInfo> rows);
    void finish(std::string next);

    const std::shared_ptr<Links> links_;
    Loop& loop_;
    const Filter filter_;
    const std::string pattern_;
    const Call call_;
    const Look look_;
    const Completion<Result<Page>> done_;
    const TimePoint half_time_;

    std::string at_ = "0";   ///< cursor of the present step
    std::string behind_;     ///< names of the present step up to this one are on earlier pages
    std::string following_;  ///< cursor of the next step
    std::vector<std::string> names_;
    Page page_;
};

}  // namespace dlock::store::redis
