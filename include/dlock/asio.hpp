// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Opt-in face for Boost.Asio: completion tokens over the callback API. Header-only; the one public header
/// that needs Boost (1.81 or newer). Nothing of it is compiled into libdlock.
///
///     asio::awaitable<void> nightly(dlock::Mutex mutex) {
///         auto got = co_await dlock::async_acquire(mutex, {.wait = 2s}, {}, asio::use_awaitable);
///         if (!got) co_return log(got.error());
///         ...
///         co_await dlock::async_release(*got, asio::use_awaitable);
///     }

#include <memory>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "dlock/mutex.hpp"

namespace dlock {

namespace detail {

/// Keeps a handler and its executor alive until the one answer, then posts the handler there. std::function
/// wants to be copied, handlers do not, hence the shared state.
template <class Handler, class Answer>
struct Pending {
    using Executor = boost::asio::associated_executor_t<Handler>;

    explicit Pending(Handler h)
        : handler(std::move(h)),
          work(boost::asio::make_work_guard(boost::asio::get_associated_executor(handler))) {}

    void complete(Answer answer) {
        auto executor = work.get_executor();
        auto call = [taken = std::move(handler), given = std::move(answer)]() mutable {
            std::move(taken)(std::move(given));
        };
        boost::asio::post(executor, std::move(call));
        work.reset();
    }

    Handler handler;
    boost::asio::executor_work_guard<Executor> work;
    std::stop_source stop;
};

template <class Handler>
void begin_acquire(Handler handler, Mutex& mutex, const AcquireOptions& options, Context context) {
    using State = Pending<Handler, Result<Lease>>;
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    auto state = std::make_shared<State>(std::move(handler));
    if (slot.is_connected()) {
        context.stop = state->stop.get_token();
        slot.assign([weak = std::weak_ptr(state)](boost::asio::cancellation_type) {
            if (const auto alive = weak.lock()) alive->stop.request_stop();
        });
    }
    mutex.start_acquire(
        options, std::move(context), [state](Result<Lease> got) { state->complete(std::move(got)); },
        Lease::Deliver::direct);
}

}  // namespace detail

/// `Mutex::try_acquire` with completion signature `void(Result<Lease>)`. The handler runs on its own
/// executor. Cancelling the operation (any kind) ends the wait with `cancelled`; it then replaces
/// `context.stop`. GCC 12: options are safe inside the co_await expression; name a non-empty Context before.
template <class Token>
auto async_acquire(Mutex& mutex, AcquireOptions options, Context context, Token&& token) {
    // Tokens copy what they pass on, hence the pointers.
    auto start = [](auto&& handler, Mutex* m, const AcquireOptions& o, Context c) {
        detail::begin_acquire(std::move(handler), *m, o, std::move(c));
    };
    return boost::asio::async_initiate<Token, void(Result<Lease>)>(start, token, &mutex, options,
                                                                   std::move(context));
}

/// `Lease::release` with completion signature `void(Result<void>)`.
template <class Token>
auto async_release(Lease& lease, Token&& token) {
    auto start = [](auto&& handler, Lease* l) {
        using State = detail::Pending<std::decay_t<decltype(handler)>, Result<void>>;
        auto state = std::make_shared<State>(std::move(handler));
        l->start_release([state](Result<void> result) { state->complete(std::move(result)); },
                         Lease::Deliver::direct);
    };
    return boost::asio::async_initiate<Token, void(Result<void>)>(start, token, &lease);
}

}  // namespace dlock
