// SPDX-License-Identifier: Apache-2.0
/// A candidate: a thread that takes a Mutex over and over.
#include "dlock/election.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "dlock/client.hpp"
#include "engine/engine.hpp"
#include "engine/fork.hpp"

namespace dlock::engine {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

struct Candidate : std::enable_shared_from_this<Candidate> {
    Candidate(Client c, Key k, Election::OnElected elected, Election::OnLost lost, const ElectionOptions& how,
              Context who)
        : client(std::move(c)),
          key(std::move(k)),
          on_elected(std::move(elected)),
          on_lost(std::move(lost)),
          options(how),
          context(std::move(who)) {
        options.lock.wait = forever;
        context.stop = halt.get_token();
    }

    void start();
    void stop();
    void resign();
    void let_go();
    [[nodiscard]] bool inert() const noexcept { return fork_generation() != generation; }
    [[nodiscard]] bool on_own_thread() const noexcept { return running == this; }

    Client client;
    const Key key;
    const Election::OnElected on_elected;
    const Election::OnLost on_lost;
    ElectionOptions options;
    Context context;
    const unsigned generation = fork_generation();

    mutable std::mutex mutex;
    std::condition_variable wake;
    std::stop_source halt;  ///< ends the wait for the lock
    bool stopping = false;
    const Lease* lease = nullptr;          ///< while it leads
    bool stands_back = false;              ///< the leadership was given up, so others come first
    std::optional<std::stop_source> term;  ///< of the leadership, until on_lost has returned
    std::string problem;

    std::mutex joining;
    std::thread thread;

private:
    void run();
    void lead(Lease lease);
    [[nodiscard]] bool begin_term(const Lease& had, std::stop_token& ended);
    void end_term();
    template <class Callback>
    void guarded(const char* name, Callback callback);
    void set_problem(std::string text);
    void pause(milliseconds time);

    static thread_local const Candidate* running;
};

thread_local const Candidate* Candidate::running = nullptr;

void Candidate::start() {
    const std::lock_guard lock(joining);
    thread = std::thread([self = shared_from_this()] {
        running = self.get();
        self->run();
    });
}

void Candidate::run() {
    for (std::unique_lock lock(mutex); !stopping; lock.lock()) {
        lock.unlock();
        auto got = client.mutex(key).try_acquire(options.lock, context);
        if (got) {
            lead(*std::move(got));
        } else if (got.error() == errc::cancelled) {
            if (!halt.stop_requested()) set_problem(got.error().message());  // the client is closed
            return;
        } else {
            set_problem(got.error().message());
            pause(1s);
        }
    }
}

void Candidate::lead(Lease had) {
    std::stop_token ended;
    if (!had.held() || !begin_term(had, ended)) return;
    {
        const std::stop_callback told(had.lost(), [this] { end_term(); });
        guarded("on_elected", [&] { on_elected(had, ended); });
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return ended.stop_requested(); });
        lease = nullptr;
    }
    guarded("on_lost", [&] { on_lost(had); });
    static_cast<void>(had.release());  // what it could say changes nothing here
    bool back = false;
    {
        const std::lock_guard lock(mutex);
        term.reset();
        back = std::exchange(stands_back, false);
    }
    if (back) pause(options.stand_back);
}

/// False when it is to stop.
bool Candidate::begin_term(const Lease& had, std::stop_token& ended) {
    const std::lock_guard lock(mutex);
    if (stopping) return false;
    ended = term.emplace().get_token();
    lease = &had;
    problem.clear();
    return true;
}

void Candidate::end_term() {
    std::optional<std::stop_source> ending;
    {
        const std::lock_guard lock(mutex);
        ending = term;
    }
    if (ending) ending->request_stop();  // runs what waits for it, so without the lock
    const std::lock_guard lock(mutex);
    wake.notify_all();
}

template <class Callback>
void Candidate::guarded(const char* name, Callback callback) {
    std::string what;
    try {
        return callback();
    } catch (const std::exception& thrown) {
        what = thrown.what();
    } catch (...) {
        what = "something that is no std::exception";
    }
    set_problem(std::string(name) + " threw: " + what);
    resign();
}

void Candidate::set_problem(std::string text) {
    const std::lock_guard lock(mutex);
    problem = std::move(text);
}

void Candidate::pause(milliseconds time) {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, time, [&] { return stopping; });
}

void Candidate::resign() {
    {
        const std::lock_guard lock(mutex);
        if (!term) return;
        stands_back = true;
    }
    end_term();
}

void Candidate::stop() {
    {
        const std::lock_guard lock(mutex);
        stopping = true;
        wake.notify_all();
    }
    halt.request_stop();
    end_term();
    if (on_own_thread()) return;
    const std::lock_guard lock(joining);
    if (thread.joinable()) thread.join();
}

/// The Election is destroyed. From inside a callback the thread goes on by itself, to the end of the pair.
void Candidate::let_go() {
    if (inert()) return;
    stop();
    const std::lock_guard lock(joining);
    if (thread.joinable()) thread.detach();
}

}  // namespace dlock::engine

namespace dlock {

Election::Election(std::shared_ptr<engine::Candidate> state) noexcept : state_(std::move(state)) {}

Election::Election(Election&& other) noexcept = default;

Election& Election::operator=(Election&& other) noexcept {
    if (this == &other) return *this;
    if (state_) state_->let_go();
    state_ = std::move(other.state_);
    return *this;
}

Election::~Election() {
    if (state_) state_->let_go();
}

bool Election::leading() const {
    if (state_->inert()) return false;
    const std::lock_guard lock(state_->mutex);
    return state_->lease != nullptr && state_->lease->held() && !state_->term->stop_requested();
}

Result<std::optional<HolderInfo>> Election::leader() const {
    auto lock = state_->client.show(state_->key);
    if (!lock) return std::move(lock).error();
    for (HolderInfo& holder : lock->holders)
        if (!holder.held_off) return std::optional(std::move(holder));
    return std::optional<HolderInfo>();
}

void Election::resign() {
    if (!state_->inert()) state_->resign();
}

void Election::stop() {
    if (!state_->inert()) state_->stop();
}

std::string Election::problem() const {
    if (state_->inert()) return "it was made before fork()";
    const std::lock_guard lock(state_->mutex);
    return state_->problem;
}

Result<Election> Client::campaign(const Key& key, Election::OnElected on_elected, Election::OnLost on_lost,
                                  const ElectionOptions& options, const Context& context) const {
    if (auto ok = options.validate(); !ok) return std::move(ok).error();
    if (!on_elected || !on_lost)
        return Error(errc::invalid_argument, "on_elected, on_lost: both must be given");
    Context who = context;
    who.stop = {};
    if (auto ok = engine_->check(key, {}, options.lock, who); !ok) return std::move(ok).error();
    // The child of a fork leaves it as it is: its thread is not there.
    std::shared_ptr<engine::Candidate> state(
        new engine::Candidate(*this, key, std::move(on_elected), std::move(on_lost), options, std::move(who)),
        [](engine::Candidate* s) {
            if (!s->inert()) delete s;
        });
    state->start();
    return Election(std::move(state));
}

}  // namespace dlock
