// SPDX-License-Identifier: Apache-2.0
#include "store/redis/ask_all.hpp"

#include <utility>

namespace dlock::store::redis {
namespace {

/// Collects the answers, which come on any thread.
class Collect {
public:
    Collect(std::size_t count, std::function<void(Answers)> done) : missing_(count), done_(std::move(done)) {
        for (std::size_t i = 0; i < count; ++i) answers_.emplace_back(ReplyPtr());
    }

    void put(std::size_t index, Result<ReplyPtr> answer) {
        {
            const std::lock_guard lock(mutex_);
            answers_[index] = std::move(answer);
            if (--missing_ > 0) return;
        }
        done_(std::move(answers_));
    }

private:
    std::mutex mutex_;
    Answers answers_;
    std::size_t missing_;
    const std::function<void(Answers)> done_;
};

bool any_shape(const redisReply& /*reply*/) { return true; }

}  // namespace

void ask_all(Links& links, Call call, const std::vector<Words>& commands, std::function<void(Answers)> done) {
    if (commands.empty()) return done({});
    const auto collect = std::make_shared<Collect>(commands.size(), std::move(done));
    for (std::size_t i = 0; i < commands.size(); ++i) {
        Command command(commands[i].size());
        for (const std::string& word : commands[i]) command.add(word);
        Request request;
        request.wire = command.take();
        request.deadline = call.deadline;
        request.shape = any_shape;
        request.done = [collect, i](Result<ReplyPtr> reply) { collect->put(i, std::move(reply)); };
        links.call(Lane::side, call.route, std::move(request));
    }
}

std::string_view text_of(const Result<ReplyPtr>& answer) noexcept {
    return answer ? text(**answer) : std::string_view();
}

long long number_of(const Result<ReplyPtr>& answer, long long otherwise) noexcept {
    return answer && is_integer(**answer) ? (*answer)->integer : otherwise;
}

}  // namespace dlock::store::redis
