// SPDX-License-Identifier: Apache-2.0
#include "support/worker_loop.hpp"

#include <functional>
#include <future>
#include <map>
#include <sstream>

#include <unistd.h>

#include "support/shared_counter.hpp"
#include "support/waiting.hpp"

namespace dlock::testing {

namespace {

std::string outcome(const Result<void>& result) { return result ? "ok" : word(result.error()); }

std::string now() { return std::to_string(BootClock::now().time_since_epoch().count()); }

/// The lines that go out, each in one write, from any thread.
class Output final : public Observer {
public:
    explicit Output(int out) : out_(out) {}

    void say(std::string line) {
        line += '\n';
        const std::lock_guard lock(mutex_);
        for (std::size_t done = 0; done < line.size();) {
            const ssize_t n = write(out_, line.data() + done, line.size() - done);
            if (n < 0 && errno != EINTR) return;  // the test is gone
            if (n > 0) done += static_cast<std::size_t>(n);
        }
    }
    void on_event(const Event& event) noexcept override {
        say("event " + std::string(to_string(event.kind)) + ' ' + event.key.text());
    }

private:
    const int out_;
    std::mutex mutex_;
};

class WorkerLoop {
public:
    explicit WorkerLoop(int out) : output_(std::make_shared<Output>(out)) {}

    /// False when there is nothing more to do.
    bool obey(const std::string& line);

private:
    struct Slot {
        std::stop_source stop;
        std::optional<Lease> lease;
        std::optional<std::stop_callback<std::function<void()>>> lost;
        std::optional<Election> election;
    };

    void say(std::string line) { output_->say(std::move(line)); }
    void open(std::istream& words);
    void acquire(std::istream& words);
    void granted(const std::string& name, Result<Lease> answer);
    void held(const std::string& name);
    void load(std::istream& words);
    void as(std::istream& words);
    void share(std::istream& words);
    Result<Lease> try_in_mode(const Key& key, AcquireOptions options);
    void start_in_mode(const Key& key, AcquireOptions options, Context context,
                       std::function<void(Result<Lease>)> done);
    void campaign(std::istream& words);
    void with_id(const std::string& verb, std::istream& words);
    void with_lease(const std::string& verb, const std::string& name);
    Slot& slot(const std::string& name) {
        const std::lock_guard lock(mutex_);
        return slots_[name];
    }

    std::shared_ptr<Output> output_;
    std::mutex mutex_;  ///< of the map, and of a slot until its grant is told
    std::map<std::string, Slot> slots_;
    std::optional<Client> client_;
    std::string mode_ = "exclusive";
    std::uint32_t permits_ = 0;
};

Key rest_as_key(std::istream& words) {
    std::string text;
    std::getline(words >> std::ws, text);
    return Key::parse(text).value();
}

void WorkerLoop::open(std::istream& words) {
    std::string url;
    words >> url;
    auto client = Client::open(url, {}, Identity("worker"), output_);
    if (!client) return say("failed " + word(client.error()) + ' ' + client.error().detail);
    client_ = std::move(*client);
    say("opened");
}

void WorkerLoop::acquire(std::istream& words) {
    std::string name, wait, renewing;
    milliseconds::rep lease = 0;
    words >> name >> lease >> wait >> renewing;
    AcquireOptions options;
    options.lease = milliseconds(lease);
    options.wait = wait == "forever" ? forever : milliseconds(std::stoll(wait));
    options.renewing = renewing == "manual" ? Renewing::manual : Renewing::automatic;
    Slot& mine = slot(name);
    mine.lost.reset();
    mine.lease.reset();
    mine.stop = std::stop_source();
    start_in_mode(rest_as_key(words), options, Context(mine.stop.get_token()),
                  [this, name](Result<Lease> answer) { granted(name, std::move(answer)); });
}

void WorkerLoop::as(std::istream& words) {
    words >> mode_ >> permits_;
    say("as " + mode_);
}

void WorkerLoop::start_in_mode(const Key& key, AcquireOptions options, Context context,
                               std::function<void(Result<Lease>)> done) {
    auto both = client_->shared_mutex(key);
    if (mode_ == "permit")
        client_->semaphore(key, permits_).start_acquire(options, std::move(context), std::move(done));
    else if (mode_ == "shared")
        both.start_acquire_shared(options, std::move(context), std::move(done));
    else if (mode_ == "write")
        both.start_acquire(options, std::move(context), std::move(done));
    else
        client_->mutex(key).start_acquire(options, std::move(context), std::move(done));
}

Result<Lease> WorkerLoop::try_in_mode(const Key& key, AcquireOptions options) {
    std::promise<Result<Lease>> promise;
    start_in_mode(key, options, {}, [&](Result<Lease> got) { promise.set_value(std::move(got)); });
    return promise.get_future().get();
}

/// A writer weighs as much as all readers together.
void WorkerLoop::share(std::istream& words) {
    constexpr std::uint32_t all = 1000;
    int rounds = 0;
    milliseconds::rep lease = 0;
    std::string file;
    words >> rounds >> lease >> file;
    const Key key = rest_as_key(words);
    SharedCounter counter(file);
    AcquireOptions options;
    options.lease = milliseconds(lease);
    options.wait = patience * 3;
    for (int i = 0; i < rounds; ++i) {
        auto got = try_in_mode(key, options);
        if (!got) return say("failed " + word(got.error()) + ' ' + got.error().detail);
        counter.share(mode_ == "write" ? all : 1, mode_ == "permit" ? permits_ : all);
    }
    say("loaded " + std::to_string(rounds));
}

void WorkerLoop::granted(const std::string& name, Result<Lease> answer) {
    if (!answer) return say("refused " + name + ' ' + word(answer.error()));
    const std::string at = now();
    const auto fence = answer->fence();
    {
        const std::lock_guard lock(mutex_);
        Slot& mine = slots_[name];
        const Lease& lease = mine.lease.emplace(std::move(*answer));
        mine.lost.emplace(lease.lost(), [this, name, &lease] {
            say("lost " + name + ' ' + now() + ' ' + lease.lost_reason());
        });
    }
    say("granted " + name + ' ' + std::to_string(fence ? fence->value : 0) + ' ' + at);
}

void WorkerLoop::held(const std::string& name) {
    const Lease& lease = *slot(name).lease;
    const bool yes = lease.held();
    const auto until = lease.usable_until().time_since_epoch().count();
    say("held " + name + (yes ? " yes " : " no ") + std::to_string(until) + ' ' + now());
}

void WorkerLoop::load(std::istream& words) {
    int rounds = 0;
    milliseconds::rep lease = 0;
    std::string file;
    words >> rounds >> lease >> file;
    Mutex mutex = client_->mutex(rest_as_key(words));
    SharedCounter counter(file);
    AcquireOptions options;
    options.lease = milliseconds(lease);
    options.wait = patience * 3;
    for (int i = 0; i < rounds; ++i) {
        auto got = mutex.try_acquire(options);
        if (!got) return say("failed " + word(got.error()) + ' ' + got.error().detail);
        counter.work(got->fence());
        // Every second time by the destructor, which does not wait.
        if (i % 2 == 0) {
            const auto freed = got->release();
            if (!freed) return say("failed " + word(freed.error()) + ' ' + freed.error().detail);
        }
    }
    say("loaded " + std::to_string(rounds));
}

void WorkerLoop::campaign(std::istream& words) {
    std::string name;
    milliseconds::rep lease = 0;
    words >> name >> lease;
    auto election = client_->campaign(
        rest_as_key(words),
        [this, name](const Lease& had, const std::stop_token&) {
            const auto fence = had.fence();
            say("elected " + name + ' ' + std::to_string(fence ? fence->value : 0) + ' ' + now());
        },
        [this, name](const Lease&) { say("ended " + name + ' ' + now()); },
        {.lock = {.lease = milliseconds(lease)}, .stand_back = 100ms});
    if (!election) return say("failed " + word(election.error()) + ' ' + election.error().detail);
    slot(name).election.emplace(std::move(*election));
}

void WorkerLoop::with_id(const std::string& verb, std::istream& words) {
    milliseconds::rep lease = 0;
    if (verb == "renew_id") words >> lease;
    std::string text;
    words >> text;
    const auto id = LeaseId::parse(text);
    if (!id) return say("failed " + word(id.error()) + ' ' + id.error().detail);
    if (verb == "renew_id") return say("renewed_id " + outcome(client_->renew(*id, milliseconds(lease))));
    say("released_id " + outcome(client_->release(*id)));
}

void WorkerLoop::with_lease(const std::string& verb, const std::string& name) {
    Slot& mine = slot(name);
    if (verb == "cancel") {
        mine.stop.request_stop();
    } else if (verb == "resign") {
        mine.election->resign();
    } else if (verb == "stop") {
        mine.election->stop();
        say("stopped " + name);
    } else if (!mine.lease) {
        say("failed nothing held in " + name);
    } else if (verb == "held") {
        held(name);
    } else if (verb == "renew") {
        say("renewed " + name + ' ' + outcome(mine.lease->renew()));
    } else if (verb == "release") {
        say("released " + name + ' ' + outcome(mine.lease->release()));
    } else if (verb == "detach") {
        say("detached " + name + ' ' + mine.lease->detach().text());
    } else if (verb == "drop") {
        mine.lost.reset();
        mine.lease.reset();
        say("dropped " + name);
    } else {
        say("failed unknown command " + verb);
    }
}

bool WorkerLoop::obey(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "quit") return false;
    if (verb == "open") {
        open(words);
    } else if (verb == "acquire") {
        acquire(words);
    } else if (verb == "load") {
        load(words);
    } else if (verb == "campaign") {
        campaign(words);
    } else if (verb == "as") {
        as(words);
    } else if (verb == "share") {
        share(words);
    } else if (verb == "close") {
        say("closed " + outcome(client_->close()));
    } else if (verb == "renew_id" || verb == "release_id") {
        with_id(verb, words);
    } else {
        std::string name;
        words >> name;
        with_lease(verb, name);
    }
    return true;
}

}  // namespace

int run_worker(int in, int out) {
    WorkerLoop loop(out);
    std::string input;
    char buffer[4096];
    for (;;) {
        const auto end = input.find('\n');
        if (end != std::string::npos) {
            const std::string line = input.substr(0, end);
            input.erase(0, end + 1);
            if (!loop.obey(line)) return 0;
            continue;
        }
        const ssize_t n = read(in, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        input.append(buffer, static_cast<std::size_t>(n));
    }
}

}  // namespace dlock::testing
