// SPDX-License-Identifier: Apache-2.0
#include "store/redis/scan_all.hpp"

#include <algorithm>
#include <charconv>

#include "store/redis/ask_all.hpp"
#include "store/redis/names.hpp"
#include "store/redis/recognise.hpp"

namespace dlock::store::redis {
namespace {

constexpr const char* names_a_step = "500";
constexpr const char* value_bytes = "299";  // the last of the first 300

bool all_digits(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// The name of a key of Redisson that belongs to a lock.
std::string side_name(const char* prefix, const std::string& name) {
    return prefix + (name.find('{') == std::string::npos ? ":{" + name + "}" : ":" + name);
}

/// One step: names, then what they are, then what is in those that may be locks. Each a round trip.
class Step : public std::enable_shared_from_this<Step> {
public:
    Step(std::shared_ptr<Links> links, ScanRequest request, Call call, Completion<Result<ScanPage>> done)
        : links_(std::move(links)), request_(std::move(request)), call_(call), done_(std::move(done)) {}

    void start() {
        const bool first = request_.cursor.empty();
        if (!first && !all_digits(request_.cursor))
            return done_(Error(errc::invalid_argument, "cursor: not one that a page before has given"));
        Words scan{"SCAN", first ? "0" : request_.cursor};
        if (!request_.match.empty()) scan.insert(scan.end(), {"MATCH", request_.match});
        scan.insert(scan.end(), {"COUNT", names_a_step});
        std::vector<Words> commands{std::move(scan), {"TIME"}};
        if (first) commands.push_back({"DBSIZE"});
        ask_all(*links_, call_, commands,
                [self = shared_from_this()](const Answers& answers) { self->scanned(answers); });
    }

private:
    enum class Kind { other, string, record, hash };
    struct Name {
        std::string name;
        Kind kind = Kind::other;
        long long left = -1;
    };

    void scanned(const Answers& answers) {
        if (!answers[0]) return done_(answers[0].error());
        const redisReply& reply = **answers[0];
        if (!is_array(reply) || reply.elements != 2 || !is_array(at(reply, 1)))
            return done_(Error(errc::store_error, "unexpected answer to SCAN"));
        const std::string_view next = text(at(reply, 0));
        if (next != "0") page_.next = next;
        read_time(answers[1]);
        if (answers.size() > 2 && answers[2]) page_.total = number_of(answers[2], 0);
        const redisReply& list = at(reply, 1);
        page_.looked_at = list.elements;
        std::vector<Words> commands;
        for (std::size_t i = 0; i < list.elements; ++i) {
            std::string name(text(at(list, i)));
            if (is_side_name(name)) continue;
            commands.push_back({"TYPE", name});
            commands.push_back({"PTTL", name});
            names_.push_back({.name = std::move(name)});
        }
        ask_all(*links_, call_, commands,
                [self = shared_from_this()](const Answers& typed) { self->typed(typed); });
    }

    void read_time(const Result<ReplyPtr>& answer) {
        if (!answer || !is_array(**answer) || (*answer)->elements != 2) return;
        const auto part = [&](std::size_t index) {
            const std::string_view digits = text(at(**answer, index));
            long long value = 0;
            std::from_chars(digits.data(), digits.data() + digits.size(), value);
            return value;
        };
        now_us_ = part(0) * 1000000 + part(1);
    }

    void typed(const Answers& answers) {
        std::vector<Words> commands;
        for (std::size_t i = 0; i < names_.size(); ++i) {
            Name& each = names_[i];
            // A name that this user may not look at is passed over, and counted.
            if (!answers[2 * i]) {
                if (answers[2 * i].error() != errc::unauthorized) return done_(answers[2 * i].error());
                continue;
            }
            each.left = number_of(answers[2 * i + 1], -1);
            each.kind = kind_of(each, text_of(answers[2 * i]));
            add_reads(each, commands);
        }
        ask_all(*links_, call_, commands,
                [self = shared_from_this()](const Answers& read) { self->read(read); });
    }

    static Kind kind_of(const Name& each, std::string_view type) {
        if (each.left == -2) return Kind::other;  // gone meanwhile
        if (type == "string") return may_be_lock(each.name, each.left) ? Kind::string : Kind::other;
        if (type == "hash") return key_of(each.name) ? Kind::record : Kind::hash;
        return Kind::other;
    }

    /// Two commands for each that may be a lock.
    static void add_reads(const Name& each, std::vector<Words>& commands) {
        switch (each.kind) {
            case Kind::other:
                return;
            case Kind::string:
                commands.push_back({"GETRANGE", each.name, "0", value_bytes});
                commands.push_back({"GET", std::string(meta_prefix) + each.name});
                return;
            case Kind::record:
                commands.push_back({"HMGET", each.name, "v", "g", "x", "s", "o"});
                commands.push_back({"ZCARD", each.name + ":line"});
                return;
            case Kind::hash:
                commands.push_back({"HSCAN", each.name, "0", "COUNT", "16"});
                commands.push_back({"LLEN", side_name("redisson_lock_queue", each.name)});
                return;
        }
    }

    void read(const Answers& answers) {
        std::size_t next = 0;
        for (const Name& each : names_) {
            if (each.kind == Kind::other) continue;
            add_row(each, answers[next], answers[next + 1]);
            next += 2;
        }
        done_(std::move(page_));
    }

    void add_row(const Name& each, const Result<ReplyPtr>& main, const Result<ReplyPtr>& side) {
        if (!main) return;  // changed its type meanwhile, or not for this user
        std::optional<FoundLock> found;
        const auto queued = static_cast<std::size_t>(std::max(0LL, number_of(side, 0)));
        if (each.kind == Kind::string)
            found = recognise(SeenString{.name = each.name,
                                         .value = std::string(text_of(main)),
                                         .companion = std::string(side ? text_of(side) : ""),
                                         .left = each.left,
                                         .now_us = now_us_});
        if (each.kind == Kind::record) found = record_of(each, **main, queued);
        if (each.kind == Kind::hash) found = hash_of(each, **main, queued);
        if (found) page_.locks.push_back(*std::move(found));
    }

    std::optional<FoundLock> record_of(const Name& each, const redisReply& fields, std::size_t queued) const {
        if (!is_array(fields) || fields.elements != 5) return std::nullopt;
        const auto field = [&](std::size_t index) { return std::string(text(at(fields, index))); };
        return recognise(SeenRecord{.key = *key_of(each.name),
                                    .version = field(0),
                                    .grant = field(1),
                                    .expires = field(2),
                                    .since = field(3),
                                    .owner = field(4),
                                    .now_us = now_us_,
                                    .queued = queued});
    }

    static std::optional<FoundLock> hash_of(const Name& each, const redisReply& reply, std::size_t queued) {
        if (!is_array(reply) || reply.elements != 2 || !is_array(at(reply, 1))) return std::nullopt;
        SeenHash seen{.name = each.name, .fields = {}, .left = each.left, .queued = queued};
        const redisReply& list = at(reply, 1);
        for (std::size_t i = 0; i + 1 < list.elements; i += 2)
            seen.fields.emplace_back(text(at(list, i)), text(at(list, i + 1)));
        return recognise(seen);
    }

    const std::shared_ptr<Links> links_;
    const ScanRequest request_;
    const Call call_;
    const Completion<Result<ScanPage>> done_;
    long long now_us_ = 0;
    std::vector<Name> names_;
    ScanPage page_;
};

}  // namespace

void scan_all(const std::shared_ptr<Links>& links, const ScanRequest& request, Call call,
              Completion<Result<ScanPage>> done) {
    std::make_shared<Step>(links, request, call, std::move(done))->start();
}

}  // namespace dlock::store::redis
