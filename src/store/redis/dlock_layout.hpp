// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/redis/answers.hpp"
#include "store/redis/links.hpp"
#include "store/redis/renewals.hpp"
#include "store/redis/subscriber.hpp"
#include "store/upkeep.hpp"

namespace dlock::store::redis {

/// Our own layout: one HASH a key, a line, fences. See names.hpp for the names, dlock_scripts.hpp for the
/// rules of a mutex, holders_scripts.hpp for those of keys with many holders.
class DlockLayout final : public Store, public Upkeep {
public:
    DlockLayout(Server server, const StoreEnv& env);
    DlockLayout(const DlockLayout&) = delete;
    DlockLayout& operator=(const DlockLayout&) = delete;
    ~DlockLayout() override;

    [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
    void acquire(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done) override;
    void renew(std::vector<RenewItem> items, Call call, Completion<std::vector<RenewAnswer>> done) override;
    void release(const ReleaseRequest& request, Call call, Completion<Result<Released>> done) override;
    [[nodiscard]] std::unique_ptr<Watch> watch(const SubjectPtr& subject, const TicketId& ticket,
                                               std::function<void(Change)> changed) override;
    void inspect(const InspectRequest& request, Call call, Completion<Result<Page>> done) override;
    void force_release(const Key& key, const std::string& seen, Call call,
                       Completion<Result<Forced>> done) override;
    void configure(const ConfigureRequest& request, Call call, Completion<Result<Configured>> done) override;
    void check(Call call, Completion<Result<std::vector<Finding>>> done) override;
    void scan(const ScanRequest& request, Call call, Completion<Result<ScanPage>> done) override;
    void forget(const Key& key, Call call, Completion<Result<void>> done) override;

private:
    void add_place(Command& command, const Place& place) const;
    void send_acquire(const AcquireRequest& request, Command command, const Script& script, Call call,
                      Completion<AcquireAnswer> done);
    void acquire_one_of_many(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done);
    void convert(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done);
    void renew_leases(const std::vector<RenewItem>& items, std::vector<std::size_t> part, const Call& call,
                      const std::shared_ptr<Gather>& gather);
    void renew_leases_of_many(const std::vector<RenewItem>& items, std::vector<std::size_t> part,
                              const Call& call, const std::shared_ptr<Gather>& gather);
    void renew_tickets(const std::vector<RenewItem>& items, std::vector<std::size_t> part, const Call& call,
                       const std::shared_ptr<Gather>& gather);

    const std::string instance_;
    const Capabilities capabilities_;
    Loop& loop_;
    const std::shared_ptr<Links> links_;
    const std::shared_ptr<Subscriber> subscriber_;
    OwnerText owners_;
};

}  // namespace dlock::store::redis
