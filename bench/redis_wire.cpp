// SPDX-License-Identifier: Apache-2.0
#include "redis_wire.hpp"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dlock/dlock.hpp"

namespace bench {

Wire::Wire(std::uint16_t port)
    : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), reader_(redisReaderCreate()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        throw std::runtime_error("cannot connect to Redis on port " + std::to_string(port));
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Wire::~Wire() {
    redisReaderFree(reader_);
    close(socket_);
}

void Wire::append(const Words& words) {
    std::vector<const char*> texts(words.size());
    std::vector<std::size_t> sizes(words.size());
    for (std::size_t i = 0; i < words.size(); ++i) {
        texts[i] = words[i].data();
        sizes[i] = words[i].size();
    }
    char* command = nullptr;
    const auto size =
        redisFormatCommandArgv(&command, static_cast<int>(words.size()), texts.data(), sizes.data());
    out_.append(command, static_cast<std::size_t>(size));
    redisFreeCommand(command);
}

void Wire::flush() {
    std::string_view rest = out_;
    while (!rest.empty()) {
        const auto sent = send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (sent <= 0) throw std::runtime_error("Redis closed the connection");
        rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    out_.clear();
}

Reply Wire::read_buffered() {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_, &reply) != REDIS_OK) throw std::runtime_error("Redis sent garbage");
    Reply owned(static_cast<redisReply*>(reply));
    if (owned && owned->type == REDIS_REPLY_ERROR)
        throw std::runtime_error(std::string(owned->str, owned->len));
    return owned;
}

void Wire::receive() {
    char buffer[16384];
    const auto size = recv(socket_, buffer, sizeof buffer, 0);
    if (size <= 0) throw std::runtime_error("Redis closed the connection");
    redisReaderFeed(reader_, buffer, static_cast<std::size_t>(size));
}

Reply Wire::read() {
    while (true) {
        if (Reply reply = read_buffered()) return reply;
        receive();
    }
}

namespace {

const std::string recorded_key = "bench-recorded-key";

char unescaped(char letter) {
    switch (letter) {
        case 'n':
            return '\n';
        case 'r':
            return '\r';
        case 't':
            return '\t';
        case 'a':
            return '\a';
        case 'b':
            return '\b';
        default:
            return letter;
    }
}

/// The words of a line of MONITOR: "EVALSHA" "7f\x00..." ...
Words monitor_words(std::string_view line) {
    Words words;
    bool inside = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '"') {
            inside = !inside;
            if (inside) words.emplace_back();
        } else if (inside && line[i] == '\\' && line.substr(i + 1, 1) == "x") {
            words.back() += static_cast<char>(std::stoi(std::string(line.substr(i + 2, 2)), nullptr, 16));
            i += 3;
        } else if (inside && line[i] == '\\') {
            words.back() += unescaped(line[++i]);
        } else if (inside) {
            words.back() += line[i];
        }
    }
    return words;
}

bool is_script_call(const Words& words) {
    return !words.empty() && (words[0] == "EVALSHA" || words[0] == "evalsha") &&
           std::any_of(words.begin(), words.end(),
                       [](const std::string& word) { return word.find(recorded_key) != std::string::npos; });
}

std::uint64_t sum_calls(Wire& wire, std::initializer_list<std::string_view> commands) {
    const Reply reply = wire.call({"INFO", "commandstats"});
    const std::string text(reply->str, reply->len);
    std::uint64_t sum = 0;
    for (std::string_view command : commands) {
        const std::string label = "cmdstat_" + std::string(command) + ":calls=";
        if (const auto at = text.find(label); at != std::string::npos)
            sum += std::stoull(text.substr(at + label.size()));
    }
    return sum;
}

}  // namespace

PairScript PairScript::record(std::uint16_t port) {
    auto client = dlock::Client::open("redis://127.0.0.1:" + std::to_string(port)).value();
    auto mutex = client.mutex(dlock::Key{recorded_key});
    mutex.try_acquire().value().release().value();  // loads the scripts
    Wire monitor(port);
    monitor.call({"MONITOR"});
    mutex.try_acquire().value().release().value();
    Wire(port).call({"ECHO", "end of the recording"});

    PairScript script;
    while (true) {
        const Reply line = monitor.read();
        const std::string_view text(line->str, line->len);
        if (text.find("end of the recording") != std::string_view::npos) break;
        if (text.find(" lua] ") != std::string_view::npos) continue;
        Words words = monitor_words(text);
        if (is_script_call(words))
            (script.acquire_.empty() ? script.acquire_ : script.release_) = std::move(words);
    }
    if (script.release_.empty()) throw std::runtime_error("dlock did not send two scripts for one pair");
    for (auto word = script.acquire_.begin() + 4; word != script.acquire_.end(); ++word) {
        const bool in_both =
            std::find(script.release_.begin() + 4, script.release_.end(), *word) != script.release_.end();
        if (in_both && word->size() >= 16) script.grant_ = *word;
    }
    if (script.grant_.empty()) throw std::runtime_error("the recorded scripts have no grant id in common");
    return script;
}

Words PairScript::fill(const Words& words, const std::string& key, std::uint64_t grant) const {
    Words filled = words;
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(grant));
    std::string id = digits;
    id.resize(grant_.size(), '0');
    for (auto& word : filled) {
        if (word == grant_) word = id;
        if (const auto at = word.find(recorded_key); at != std::string::npos)
            word.replace(at, recorded_key.size(), key);
    }
    return filled;
}

HandOvers hand_overs(Wire& wire, milliseconds slice, const std::function<std::uint64_t()>& grants) {
    const auto begin = Clock::now();
    const auto calls_before = client_calls(wire);
    const auto grants_before = grants();
    std::this_thread::sleep_for(slice);
    const auto made = static_cast<double>(grants() - grants_before);
    return {static_cast<double>(client_calls(wire) - calls_before) / made,
            made / seconds(Clock::now() - begin)};
}

std::uint64_t script_calls(Wire& wire) { return sum_calls(wire, {"evalsha", "eval", "fcall"}); }

std::uint64_t client_calls(Wire& wire) {
    return sum_calls(wire, {"evalsha", "eval", "fcall", "script|load", "subscribe", "unsubscribe", "ping"});
}

}  // namespace bench
