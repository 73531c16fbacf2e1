// SPDX-License-Identifier: Apache-2.0
#include "store/redis/resp.hpp"

#include <array>
#include <charconv>

#include <openssl/sha.h>

#include "core/text.hpp"

namespace dlock::store::redis {
namespace {

constexpr std::size_t largest_reply = std::size_t{64} << 20;

/// "*3\r\n", "$12\r\n"
void add_header(std::string& wire, char type, std::size_t number) {
    std::array<char, 24> digits;
    char* end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    wire += type;
    wire.append(digits.data(), end);
    wire += "\r\n";
}

void add_bulk(std::string& wire, std::string_view part) {
    add_header(wire, '$', part.size());
    wire += part;
    wire += "\r\n";
}

/// Before Redis 7 the error of a command inside a script is wrapped:
/// "ERR Error running script (call to f_...): @user_script:3: WRONGTYPE Operation ...", some with the place
/// twice.
std::string_view unwrap(std::string_view error) noexcept {
    constexpr std::string_view wrapper = "ERR Error running script";
    constexpr std::string_view place = "@user_script";
    const std::size_t last = error.rfind(place);
    if (!error.starts_with(wrapper) || last == std::string_view::npos) return error;
    const std::size_t inner = error.find_first_not_of(":0123456789 ", last + place.size());
    return inner == std::string_view::npos ? error : error.substr(inner);
}

struct Meaning {
    std::string_view prefix;
    errc code;
    Fault fault;
};
constexpr std::array<Meaning, 18> meanings{{
    {"WRONGTYPE", errc::foreign_record, Fault::fatal},
    {"WRONGPASS", errc::unauthorized, Fault::fatal},
    {"NOAUTH", errc::unauthorized, Fault::fatal},
    {"NOPERM", errc::unauthorized, Fault::fatal},
    {"ERR ACL failure", errc::unauthorized, Fault::fatal},
    {"ERR The user executing the script", errc::unauthorized, Fault::fatal},
    {"ERR AUTH", errc::unauthorized, Fault::fatal},
    {"ERR Client sent AUTH", errc::unauthorized, Fault::fatal},
    {"ERR invalid password", errc::unauthorized, Fault::fatal},
    {"ERR DB index", errc::invalid_argument, Fault::fatal},
    {"ERR invalid DB index", errc::invalid_argument, Fault::fatal},
    {"ERR max number of clients", errc::unavailable, Fault::retry},
    {"OOM", errc::unavailable, Fault::retry},
    {"BUSY", errc::unavailable, Fault::retry},
    {"TRYAGAIN", errc::unavailable, Fault::retry},
    {"CLUSTERDOWN", errc::unavailable, Fault::retry},
    {"MISCONF", errc::unavailable, Fault::retry},
    {"NOREPLICAS", errc::unavailable, Fault::retry},
}};

}  // namespace

ReplyReader::ReplyReader() : reader_(redisReaderCreate()) {
    if (reader_ == nullptr) throw std::bad_alloc();
}

bool ReplyReader::feed(std::string_view bytes) {
    return redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) == REDIS_OK &&
           reader_->len <= largest_reply;
}

ReplyReader::Next ReplyReader::next(ReplyPtr& reply) {
    void* made = nullptr;
    if (redisReaderGetReply(reader_.get(), &made) != REDIS_OK) return Next::broken;
    reply.reset(static_cast<redisReply*>(made));
    return made == nullptr ? Next::more : Next::reply;
}

bool ReplyReader::empty() const noexcept { return reader_->pos == reader_->len && reader_->ridx < 0; }

Script::Script(std::string source) : text(std::move(source)) {
    std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
    SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
    sha = core::to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

Command::Command(std::size_t parts) { add_header(wire_, '*', parts); }

Command::Command(std::initializer_list<std::string_view> parts) : Command(parts.size()) {
    for (const std::string_view part : parts) add(part);
}

Command::Command(const Script& script, std::size_t keys, std::size_t args) {
    wire_.reserve(96 + (keys + args) * 48);
    add_header(wire_, '*', 3 + keys + args);
    add("EVALSHA").add(script.sha).add(static_cast<std::int64_t>(keys));
}

Command& Command::add(std::string_view part) {
    add_bulk(wire_, part);
    return *this;
}

Command& Command::add(std::int64_t number) {
    std::array<char, 24> digits;
    char* end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return add(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
}

Command& Command::add_hex(std::string_view bytes) {
    add_header(wire_, '$', 2 * bytes.size());
    core::append_hex(wire_, bytes);
    wire_ += "\r\n";
    return *this;
}

std::string with_text(std::string_view wire, const Script& script) {
    const std::size_t count_end = wire.find("\r\n") + 2;  // "*N\r\n" stays
    std::string made(wire.substr(0, count_end));
    add_bulk(made, "EVAL");
    add_bulk(made, script.text);
    std::string replaced;
    add_bulk(replaced, "EVALSHA");
    add_bulk(replaced, script.sha);
    made += wire.substr(count_end + replaced.size());
    return made;
}

Trouble trouble_of(std::string_view error) noexcept {
    error = unwrap(error);
    if (error.starts_with("NOSCRIPT")) return Trouble::no_script;
    for (const std::string_view prefix : {"READONLY", "LOADING", "MASTERDOWN"})
        if (error.starts_with(prefix)) return Trouble::not_here;
    return Trouble::none;
}

Error error_of(std::string_view error) {
    error = unwrap(error);
    std::string words = "Redis says: " + std::string(error);
    if (trouble_of(error) == Trouble::not_here) return unavailable(std::move(words));
    for (const Meaning& meaning : meanings)
        if (error.starts_with(meaning.prefix)) return {meaning.code, std::move(words), meaning.fault};
    return {errc::store_error, std::move(words), Fault::fatal};
}

Error unavailable(std::string text) { return {errc::unavailable, std::move(text), Fault::retry}; }

Error unanswered(std::string text) { return {errc::unknown_outcome, std::move(text), Fault::indeterminate}; }

}  // namespace dlock::store::redis
