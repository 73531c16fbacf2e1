// SPDX-License-Identifier: Apache-2.0
// For the coroutine gate: it must find every line marked "bad" and no other. Never built.
#include <coroutine>
#include <string>
#include <utility>

struct Task {
    struct promise_type {
        Task get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};

struct Named {
    std::string text;
    explicit Named(std::string t) : text(std::move(t)) {}
};
struct Aggregate {
    std::string text;
};

std::suspend_never take(Aggregate);
std::suspend_never take(Named);
template <class F>
std::suspend_never call(F function) {
    function();
    return {};
}

Task waits(std::string text, bool first) {
    co_await take(Aggregate{text});                   // bad
    co_await take({.text = text});                    // bad
    co_await call([text] { return text; });           // bad
    co_await take(first ? Named("a") : Named(text));  // bad
    co_await take(Named(text + "!"));
    Aggregate named{text};
    co_await take(std::move(named));
    auto function = [text] { return text; };
    co_await call(std::move(function));
}
