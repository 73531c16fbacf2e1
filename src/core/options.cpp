// SPDX-License-Identifier: Apache-2.0
#include "dlock/options.hpp"

#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "dlock/election.hpp"
#include "dlock/once.hpp"

namespace dlock {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t max_id = 256;
constexpr std::size_t max_note = 1024;

struct Range {
    milliseconds least;
    milliseconds most;
    std::string_view fix;
};

Result<void> check(std::string_view field, milliseconds value, const Range& range) {
    if (value >= range.least && value <= range.most) return {};
    return Error(errc::invalid_argument, std::string(field) + " is " + std::to_string(value.count()) +
                                             " ms; " + std::string(range.fix));
}

}  // namespace

Result<void> AcquireOptions::validate() const {
    const Range lease_range{milliseconds(1), longest, "give more than 0 and at most 365 days"};
    if (auto checked = check("lease", lease, lease_range); !checked) return checked;
    for (const auto& [field, limit] :
         {std::pair("max_hold", max_hold), {"progress_within", progress_within}}) {
        if (limit == forever) continue;
        if (auto checked = check(field, limit, lease_range); !checked) return checked;
    }
    for (const auto& [field, time] : {std::pair("hold_off", hold_off), {"at_least", at_least}})
        if (auto checked = check(field, time, {milliseconds(0), longest, "give 0 to 365 days"}); !checked)
            return checked;
    if (!wait || *wait == forever) return {};
    return check("wait", *wait, {milliseconds(0), longest, "give 0 (do not wait) to 365 days, or forever"});
}

Result<void> OnceOptions::validate() const {
    const Range keep_range{milliseconds(1), longest, "give 1 ms to 365 days"};
    if (keep)
        if (auto checked = check("keep", *keep, keep_range); !checked) return checked;
    if (lock.nested == Nested::join)
        return Error(errc::invalid_argument,
                     "nested: work that is done once cannot join a lock, whose "
                     "release would leave the result; use another key");
    return lock.validate();
}

Result<void> ElectionOptions::validate() const {
    const Range range{milliseconds(0), longest, "give 0 to 365 days"};
    if (auto checked = check("stand_back", stand_back, range); !checked) return checked;
    return lock.validate();
}

Result<void> ClientOptions::validate() const {
    const Range call_range{milliseconds(50), std::chrono::seconds(60), "give 50 ms to 60 s"};
    if (auto checked = check("call_timeout", call_timeout, call_range); !checked) return checked;
    const Range outage_range{milliseconds(0), longest, "give 0 to 365 days, or forever"};
    if (unavailable_after != forever)
        if (auto checked = check("unavailable_after", unavailable_after, outage_range); !checked)
            return checked;
    return check("close_within", close_within, {milliseconds(0), longest, "give 0 to 365 days"});
}

Result<void> Context::validate() const {
    if (auto checked = core::check_text("biz_id", biz_id, max_id); !checked) return checked;
    if (auto checked = core::check_text("txid", txid, max_id); !checked) return checked;
    return core::check_text("note", note, max_note);
}

}  // namespace dlock
