// SPDX-License-Identifier: Apache-2.0
#include "regress/by_hand.hpp"

#include <utility>

namespace dlock::testing {

class ByHand::HandStore final : public store::Store {
public:
    HandStore(ByHand& hand, const store::Capabilities& capabilities)
        : hand_(hand), capabilities_(capabilities) {}

    [[nodiscard]] const store::Capabilities& capabilities() const noexcept override { return capabilities_; }
    void acquire(const store::AcquireRequest& request, store::Call call,
                 store::Completion<store::AcquireAnswer> done) override {
        hand_.acquires.push_back({request, call, std::move(done)});
    }
    void renew(std::vector<store::RenewItem> items, store::Call call,
               store::Completion<std::vector<store::RenewAnswer>> done) override {
        hand_.renews.push_back({std::move(items), call, std::move(done)});
    }
    void release(const store::ReleaseRequest& request, store::Call call,
                 store::Completion<Result<store::Released>> done) override {
        hand_.releases.push_back({request, call, std::move(done)});
    }
    std::unique_ptr<store::Watch> watch(const store::SubjectPtr& /*subject*/,
                                        const store::TicketId& /*ticket*/,
                                        std::function<void(store::Change)> /*changed*/) override {
        return nullptr;
    }
    void inspect(const store::InspectRequest& /*request*/, store::Call /*call*/,
                 store::Completion<Result<Page>> done) override {
        done(Page{});
    }
    void force_release(const Key& /*key*/, const std::string& /*seen*/, store::Call /*call*/,
                       store::Completion<Result<Forced>> done) override {
        done(Forced::already_free);
    }
    void configure(const store::ConfigureRequest& /*request*/, store::Call /*call*/,
                   store::Completion<Result<store::Configured>> done) override {
        done(store::Configured{});
    }
    void check(store::Call /*call*/, store::Completion<Result<std::vector<Finding>>> done) override {
        done(std::vector<Finding>{});
    }

private:
    ByHand& hand_;
    store::Capabilities capabilities_;
};

ByHand::ByHand(const store::Capabilities& capabilities)
    : process_(std::make_shared<sim::Process>(world_, 0)) {
    const auto factory = [&](const store::StoreEnv&) -> Result<std::unique_ptr<store::Store>> {
        return std::unique_ptr<store::Store>(std::make_unique<HandStore>(*this, capabilities));
    };
    engine_ =
        engine::Engine::create(factory, {}, Identity("test"), nullptr, sim::make_host(process_)).value();
}

ByHand::~ByHand() { static_cast<void>(engine_->close()); }

ByHand::Outcome ByHand::acquire(milliseconds wait, milliseconds lease) {
    auto outcome = std::make_shared<std::optional<Result<Lease>>>();
    AcquireOptions options;
    options.wait = wait;
    options.lease = lease;
    engine_->start_acquire(
        Key("lock"), {}, options, {}, [outcome](Result<Lease> got) { outcome->emplace(std::move(got)); },
        Lease::Deliver::direct);
    return outcome;
}

}  // namespace dlock::testing
