// SPDX-License-Identifier: Apache-2.0
#include "dlock/client.hpp"

#include <utility>

#include "engine/engine.hpp"
#include "store/registry.hpp"

namespace dlock {

namespace {

/// Shared by the copies of a Client: the last one closes the engine, which its leases may outlive.
struct Closer {
    explicit Closer(std::shared_ptr<engine::Engine> e) : engine(std::move(e)) {}
    Closer(const Closer&) = delete;
    Closer& operator=(const Closer&) = delete;
    ~Closer() { static_cast<void>(engine->close()); }
    std::shared_ptr<engine::Engine> engine;
};

}  // namespace

Result<Client> Client::open(std::string_view url, ClientOptions options, Identity identity,
                            std::shared_ptr<Observer> observer) {
    auto engine =
        engine::Engine::create([url](const store::StoreEnv& env) { return store::open_store(url, env); },
                               options, std::move(identity), std::move(observer));
    if (!engine) return std::move(engine).error();
    return Client(std::move(*engine));
}

Client::Client(std::shared_ptr<engine::Engine> engine) noexcept {
    auto* raw = engine.get();
    engine_ = std::shared_ptr<engine::Engine>(std::make_shared<Closer>(std::move(engine)), raw);
}

Client::~Client() = default;

Mutex Client::mutex(Key key) const { return {engine_->shared_from_this(), std::move(key)}; }

SharedMutex Client::shared_mutex(Key key) const { return {engine_->shared_from_this(), std::move(key)}; }

Semaphore Client::semaphore(Key key, std::uint32_t permits) const {
    return {engine_->shared_from_this(), std::move(key), permits};
}

Result<std::uint32_t> Client::configure(const Key& key, std::uint32_t permits,
                                        std::optional<std::uint32_t> if_current) const {
    return engine_->configure({key, permits, if_current});
}

Result<Page> Client::list(const Filter& filter) const {
    if (filter.limit < 1 || filter.limit > 10'000)
        return Error(errc::invalid_argument,
                     "limit: " + std::to_string(filter.limit) + "; use 1 to 10000 rows a page");
    return engine_->inspect({filter, std::nullopt});
}

Result<LockInfo> Client::show(const Key& key) const {
    if (auto ok = key.check(); !ok) return std::move(ok).error();
    auto page = engine_->inspect({{}, key});
    if (!page) return std::move(page).error();
    if (!page->locks.empty()) return std::move(page->locks.front());
    LockInfo free;
    free.key = key;
    return free;
}

Result<Forced> Client::force_release(const Key& key, std::string_view seen) const {
    return engine_->force_release(key, seen);
}

Result<void> Client::renew(const LeaseId& id, std::chrono::milliseconds lease) const {
    return engine_->renew(id, lease);
}

Result<void> Client::release(const LeaseId& id) const { return engine_->release(id); }

Result<Lease> Client::adopt(const LeaseId& id, const AcquireOptions& options, const Context& context) const {
    auto lease = engine_->adopt(id, options, context);
    if (!lease) return std::move(lease).error();
    return Lease(engine_->shared_from_this(), std::move(*lease));
}

Result<std::vector<Finding>> Client::check() const { return engine_->findings(); }

Result<ScanPage> Client::scan(const ScanRequest& request) const { return engine_->scan(request); }

Result<void> Client::forget(const Key& key) const { return engine_->forget(key); }

Result<void> Client::close() { return engine_->close(); }

}  // namespace dlock
