// SPDX-License-Identifier: Apache-2.0
/// The Asio face: completion tokens, cancellation, executors.
#include "dlock/asio.hpp"

#include <future>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include "dlock/dlock.hpp"

namespace dlock {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

class AsioFace : public testing::Test {
protected:
    Client client = Client::open("memory:asio-face").value();
    Mutex mutex = client.mutex(Key{"asio"});
};

asio::awaitable<void> hold_once(Mutex& mutex, std::vector<std::uint64_t>& fences) {
    const AcquireOptions options{.lease = 5s, .wait = 10s};
    const Context context;
    auto got = co_await async_acquire(mutex, options, context, asio::use_awaitable);
    EXPECT_TRUE(got) << got.error().message();
    fences.push_back(got->fence()->value);
    const auto released = co_await async_release(*got, asio::use_awaitable);
    EXPECT_TRUE(released) << released.error().message();
}

TEST_F(AsioFace, coroutines_take_turns_on_one_thread) {
    asio::io_context io;
    std::vector<std::uint64_t> fences;
    for (int i = 0; i < 50; ++i) asio::co_spawn(io, hold_once(mutex, fences), asio::detached);
    io.run();
    ASSERT_EQ(fences.size(), 50U);
    for (std::size_t i = 1; i < fences.size(); ++i) EXPECT_LT(fences[i - 1], fences[i]);
}

TEST_F(AsioFace, futures_work) {
    auto lease = async_acquire(mutex, {}, {}, asio::use_future).get();
    ASSERT_TRUE(lease) << lease.error().message();
    const auto busy = async_acquire(mutex, {}, {}, asio::use_future).get();
    ASSERT_FALSE(busy);
    EXPECT_EQ(busy.error(), errc::contended);
}

TEST_F(AsioFace, cancelling_the_operation_ends_the_wait) {
    auto holder = mutex.acquire();
    asio::io_context io;
    asio::cancellation_signal cancel;
    std::optional<Error> error;
    auto handler = [&](Result<Lease> got) {
        ASSERT_FALSE(got);
        error = got.error();
    };
    async_acquire(mutex, {.wait = forever}, {},
                  asio::bind_executor(io, asio::bind_cancellation_slot(cancel.slot(), handler)));
    asio::post(io, [&] { cancel.emit(asio::cancellation_type::terminal); });
    io.run();
    ASSERT_TRUE(error);
    EXPECT_EQ(*error, errc::cancelled);
    EXPECT_EQ(client.show(mutex.key())->waiter_count, 0U);
}

TEST_F(AsioFace, the_handler_runs_on_its_own_executor) {
    asio::thread_pool pool(1);
    std::promise<bool> there;
    async_acquire(mutex, {}, {}, asio::bind_executor(pool, [&](Result<Lease> got) {
                      there.set_value(got && pool.get_executor().running_in_this_thread());
                  }));
    EXPECT_TRUE(there.get_future().get());
    pool.join();
}

}  // namespace
}  // namespace dlock
