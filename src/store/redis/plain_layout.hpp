// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/redis/answers.hpp"
#include "store/redis/links.hpp"
#include "store/upkeep.hpp"

namespace dlock::store::redis {

/// The layout of SET NX PX with compare-and-delete, which redsync, node-redlock, redis-py, Spring and many
/// scripts share: the key as given is a STRING, the owner's token. Ours is the grant's id as 32 hexadecimal
/// digits. Who holds it is in a companion, `dlock:meta:KEY`, written in the same script with the same expiry:
/// "<public id>;<since us>;<owner JSON>". No lines, no fences. Lists show keys that have a companion; `show`
/// any key.
///
/// Rights: +evalsha +eval +get +set +del +pttl +pexpire +time +type (and +scan for lists); keys: the locks'
/// own and ~dlock:meta:*.
class PlainLayout final : public Store, public Upkeep {
public:
    PlainLayout(Server server, const StoreEnv& env);
    PlainLayout(const PlainLayout&) = delete;
    PlainLayout& operator=(const PlainLayout&) = delete;
    ~PlainLayout() override;

    [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
    void acquire(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done) override;
    void renew(std::vector<RenewItem> items, Call call, Completion<std::vector<RenewAnswer>> done) override;
    void release(const ReleaseRequest& request, Call call, Completion<Result<Released>> done) override;
    [[nodiscard]] std::unique_ptr<Watch> watch(const SubjectPtr&, const TicketId&,
                                               std::function<void(Change)>) override {
        return nullptr;
    }
    void inspect(const InspectRequest& request, Call call, Completion<Result<Page>> done) override;
    void force_release(const Key& key, const std::string& seen, Call call,
                       Completion<Result<Forced>> done) override;
    void configure(const ConfigureRequest& request, Call call, Completion<Result<Configured>> done) override;
    void check(Call call, Completion<Result<std::vector<Finding>>> done) override;
    void scan(const ScanRequest& request, Call call, Completion<Result<ScanPage>> done) override;
    void forget(const Key& key, Call call, Completion<Result<void>> done) override;

private:
    const Capabilities capabilities_;
    Loop& loop_;
    const std::shared_ptr<Links> links_;
    OwnerText owners_;
};

}  // namespace dlock::store::redis
