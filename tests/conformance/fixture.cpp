// SPDX-License-Identifier: Apache-2.0
#include "conformance/fixture.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "engine/engine.hpp"

namespace dlock::conformance {

void StoreFixture::impossible() { throw std::logic_error("the fixture said that it cannot do this"); }

std::string kind_name(const ::testing::TestParamInfo<StoreKind>& info) { return info.param.name; }

TempFolder::TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "dlock-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    path_ = name;
}

TempFolder::~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

milliseconds margin(milliseconds lease) {
    return std::max(std::min(std::max(lease / 20, 10ms), 500ms), lease / 1000);
}

AcquireOptions options(milliseconds lease, milliseconds wait, Renewing renewing) {
    AcquireOptions chosen;
    chosen.lease = lease;
    chosen.wait = wait;
    chosen.renewing = renewing;
    return chosen;
}

std::string Conformance::cannot(std::initializer_list<Need> needs) const {
    for (const Need need : needs) {
        std::string why = store_->cannot(need);
        if (!why.empty()) return why;
    }
    return {};
}

Client Conformance::open(ClientOptions client_options, std::shared_ptr<Observer> observer) {
    return Client::open(store_->url(), client_options, Identity("conformance"), std::move(observer)).value();
}

Client Conformance::open_faulty(const std::shared_ptr<FaultPlan>& plan, ClientOptions client_options,
                                std::shared_ptr<Observer> observer) {
    return Client(engine::Engine::create(testing::faulty(store_->url(), plan), client_options,
                                         Identity("faulty"), std::move(observer))
                      .value());
}

std::unique_ptr<Worker> Conformance::worker() {
    return std::make_unique<Worker>(has(Need::processes) ? Worker::As::process : Worker::As::thread,
                                    store_->url());
}

Lease Conformance::take(const Client& client, const Key& key, AcquireOptions how) {
    return client.mutex(key).try_acquire(how).value();
}

Pending Conformance::wait_behind(const Client& client, Recorder& events, const Key& key, AcquireOptions how) {
    const std::size_t before = events.count(Event::Kind::waiting, &key);
    Pending pending(client, key, how);
    EXPECT_TRUE(events.wait_for(Event::Kind::waiting, before + 1, &key)) << "it does not wait";
    return pending;
}

bool Conformance::stand_in_line(const Client& client, const Key& key, std::size_t count) {
    const TimePoint start = BootClock::now();
    std::size_t seen = 0;
    do {
        seen = client.show(key).value().waiter_count;
    } while (seen != count && since(start) < patience);
    return seen == count;
}

void Conformance::expect_contended(const Client& client, const Key& key) {
    const auto got = client.mutex(key).try_acquire(options(1s));
    ASSERT_FALSE(got) << "two hold " << key.text();
    EXPECT_EQ(word(got.error()), "contended") << got.error().message();
}

std::optional<Fence> Conformance::expect_free(const Client& client, const Key& key, milliseconds limit) {
    auto got = client.mutex(key).try_acquire(options(5s, limit));
    if (!got) {
        ADD_FAILURE() << key.text() << " is not free: " << got.error().message();
        return std::nullopt;
    }
    const auto fence = got->fence();
    const auto freed = got->release();
    EXPECT_TRUE(freed) << freed.error().message();
    return fence;
}

void Conformance::expect_higher(std::optional<Fence> earlier, std::optional<Fence> later) {
    if (!has(Need::fences)) {
        EXPECT_FALSE(earlier || later) << "a fence was invented";
        return;
    }
    ASSERT_TRUE(earlier && later) << "a fence is missing";
    EXPECT_LT(*earlier, *later);
}

}  // namespace dlock::conformance
