// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlock/dlock.hpp"
#include "support/fault_store.hpp"
#include "support/waiting.hpp"
#include "support/worker.hpp"

/// The promises of the design as tests, one suite for every store. A store joins with one file in fixtures/.
namespace dlock::conformance {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using testing::FaultPlan;
using testing::Harm;
using testing::LossWatch;
using testing::Op;
using testing::patience;
using testing::Pending;
using testing::Recorder;
using testing::since;
using testing::word;
using testing::Worker;

/// What a case needs of a store, or of the means to hurt it.
enum class Need {
    processes,             ///< is shared by processes of one host
    lines,                 ///< keeps a line of waiters
    fences,                ///< gives fences
    restart_with_data,     ///< can stop and come back with its records
    restart_without_data,  ///< can come back empty
    freeze,                ///< can stop answering and go on later
    flush,                 ///< can lose all records at once
    read_only,             ///< can refuse writes for a while
    delete_record,         ///< lets people delete one record behind our back
    cut_notifications,     ///< pushes wake-ups over a channel that can be cut
    modes,                 ///< has readers and writers, permits, hold-offs and results
    metadata,              ///< keeps who holds or waits, with every grant
};

/// One store with a space of its own, made anew for each case.
class StoreFixture {
public:
    virtual ~StoreFixture() = default;

    [[nodiscard]] virtual std::string url() const = 0;
    /// Why the case does not apply; empty where it does.
    [[nodiscard]] virtual std::string cannot(Need need) const = 0;
    /// Keys that could clash in this store's naming, beside those that all stores are asked.
    [[nodiscard]] virtual std::vector<std::string> awkward_keys() const { return {}; }

    virtual void restart_with_data() { impossible(); }
    virtual void restart_without_data() { impossible(); }
    virtual void freeze() { impossible(); }
    virtual void thaw() { impossible(); }
    virtual void flush() { impossible(); }
    virtual void refuse_writes() { impossible(); }
    virtual void accept_writes() { impossible(); }
    virtual void delete_record(const Key&) { impossible(); }
    /// What a key is stored as, piece by piece; empty where nobody can delete one alone.
    [[nodiscard]] virtual std::vector<std::string> pieces() const { return {}; }
    virtual void delete_piece(const Key&, const std::string& /*piece*/) { impossible(); }
    virtual void cut_notifications() { impossible(); }

protected:
    [[noreturn]] static void impossible();
};

struct StoreKind {
    std::string name;  ///< of the layout or variant: "default", "plain"
    std::function<std::unique_ptr<StoreFixture>()> make;
};
inline void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }
std::string kind_name(const ::testing::TestParamInfo<StoreKind>& info);

/// An empty folder, removed at the end.
class TempFolder {
public:
    TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder();
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

/// How long the last renewal's time runs past `usable_until`; the design's formula, written down a second
/// time.
milliseconds margin(milliseconds lease);

AcquireOptions options(milliseconds lease, milliseconds wait = 0ms, Renewing renewing = Renewing::automatic);

class Conformance : public ::testing::TestWithParam<StoreKind> {
protected:
    void SetUp() override { store_ = GetParam().make(); }
    void TearDown() override { store_.reset(); }

    [[nodiscard]] StoreFixture& store() { return *store_; }
    [[nodiscard]] std::string cannot(std::initializer_list<Need> needs) const;
    [[nodiscard]] bool has(Need need) const { return store_->cannot(need).empty(); }

    Client open(ClientOptions client_options = {}, std::shared_ptr<Observer> observer = nullptr);
    /// A client whose calls to the store follow the plan.
    Client open_faulty(const std::shared_ptr<FaultPlan>& plan, ClientOptions client_options = {},
                       std::shared_ptr<Observer> observer = nullptr);
    /// A client in a process of its own, or on a thread where the store is one process's.
    std::unique_ptr<Worker> worker();

    /// Acquires a lock that must be free, or become free within `wait`.
    Lease take(const Client& client, const Key& key, AcquireOptions how);
    /// Starts an acquisition of a lock that is not free, and returns when it waits.
    Pending wait_behind(const Client& client, Recorder& events, const Key& key, AcquireOptions how);
    /// Whether so many come to stand in line, as the store has it: an event may tell one waiter twice.
    bool stand_in_line(const Client& client, const Key& key, std::size_t count);
    /// Fails unless the key is held by somebody else than `client`.
    void expect_contended(const Client& client, const Key& key);
    /// Fails unless the key becomes free within `limit`; takes it and frees it. The fence it got.
    std::optional<Fence> expect_free(const Client& client, const Key& key, milliseconds limit);
    /// Fails unless `later` is the higher one, or the store has no fences and gave none.
    void expect_higher(std::optional<Fence> earlier, std::optional<Fence> later);

    const Key key_{"conformance/lock"};
    const TempFolder folder_;

private:
    std::unique_ptr<StoreFixture> store_;
};

/// Skips the case where the store cannot take part, and prints why.
#define DLOCK_NEEDS(...)                                               \
    if (const std::string why = cannot({__VA_ARGS__}); !why.empty()) { \
        GTEST_SKIP() << why;                                           \
    }

}  // namespace dlock::conformance
