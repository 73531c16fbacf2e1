// SPDX-License-Identifier: Apache-2.0
#include "store/redis/answers.hpp"

#include <charconv>

#include "store/by_rules.hpp"
#include "store/owner_json.hpp"
#include "store/redis/names.hpp"

namespace dlock::store::redis {

std::optional<core::Kind> kind_of(std::string_view version) {
    for (const core::Kind kind : {core::Kind::mutex, core::Kind::read_write, core::Kind::permits})
        if (version.starts_with("1:") && version.substr(2) == core::to_string(kind)) return kind;
    return std::nullopt;
}

std::string problem_of(std::string_view version) {
    if (kind_of(version)) return {};
    if (version.starts_with("1:"))
        return "a lock of the kind " + std::string(version.substr(2)) + ", which this version does not know";
    if (version.empty()) return "a hash without a layout version, so it was not written by dlock";
    if (version.starts_with("damaged")) return "damaged: a number in it is none";
    return "written by another version of dlock (layout " + std::string(version) + ")";
}

Error refusal(const Key& key, std::string_view version, core::Mode wanted) {
    if (const auto kind = kind_of(version)) return kind_differs(*kind, wanted);
    if (version == "damaged floor")
        return {errc::foreign_record,
                std::string(floor_name) + " holds no number; set it to the highest fence ever given"};
    const errc code = version.starts_with("1:") ? errc::limit_differs : errc::foreign_record;
    return {code, Names(key.bytes()).record + " is " + problem_of(version) +
                      "; use another key, or delete it when nobody needs it"};
}

Error in_record(const Error& error, const Key& key) {
    if (error.code != make_error_code(errc::foreign_record)) return error;
    return {errc::foreign_record, "a value of another type is under " + Names(key.bytes()).record +
                                      " or its line; use another key, or delete it when nobody needs it (" +
                                      error.detail + ")"};
}

std::optional<Fence> fence_of(std::string_view digits) {
    Fence number;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number.value);
    if (failed != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
    return number;
}

std::shared_ptr<const std::string> OwnerText::of(const std::shared_ptr<const Owner>& owner) {
    const std::lock_guard lock(mutex_);
    if (last_ != owner) {
        text_ = std::make_shared<const std::string>(to_json(*owner));
        last_ = owner;
    }
    return text_;
}

Request script_request(Command& command, const Script& script, const Call& call,
                       bool (*shape)(const redisReply&), std::function<void(Result<ReplyPtr>)> done) {
    Request request;
    request.wire = command.take();
    request.deadline = call.deadline;
    request.script = &script;
    request.shape = shape;
    request.done = std::move(done);
    return request;
}

}  // namespace dlock::store::redis
