// SPDX-License-Identifier: Apache-2.0
/// The lock in Boost.Asio coroutines: no thread waits.
#include <cstdio>
#include <exception>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <dlock/asio.hpp>
#include <dlock/dlock.hpp>

using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

int turns = 0;

asio::awaitable<void> take_turns(dlock::Mutex mutex, const char* name) {
    const dlock::AcquireOptions options{.lease = 10s, .wait = 5s};
    const dlock::Context context;
    for (int i = 0; i < 3; ++i) {
        auto got = co_await dlock::async_acquire(mutex, options, context, asio::use_awaitable);
        if (!got) co_return;
        std::printf("%s has the lock\n", name);
        ++turns;
        auto released = co_await dlock::async_release(*got, asio::use_awaitable);
        if (!released) co_return;
    }
}

}  // namespace

int main() {
    const auto client = dlock::Client::open("memory:coroutine").value();
    asio::io_context io;
    for (const char* name : {"A", "B"}) {
        asio::co_spawn(io, take_turns(client.mutex(dlock::Key{"demo"}), name), asio::detached);
    }
    io.run();
    return turns == 6 ? 0 : 1;
}
