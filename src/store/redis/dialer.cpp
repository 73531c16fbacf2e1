// SPDX-License-Identifier: Apache-2.0
#include "store/redis/dialer.hpp"

#include <array>

namespace dlock::store::redis {
namespace {

/// Which of two candidates' errors tells more: a refused password before a reason to try again before the
/// rest.
int weight(const Error& error) {
    if (error == errc::unauthorized) return 2;
    return error.fault == Fault::retry ? 1 : 0;
}

Error joined(const Error& first, const Error& second) {
    const Error& heavier = weight(second) > weight(first) ? second : first;
    return {static_cast<errc>(heavier.code.value()), first.detail + "; " + second.detail, heavier.fault};
}

}  // namespace

Dialer::Dialer(Loop& loop, std::shared_ptr<const Server> server, std::chrono::milliseconds patience)
    : loop_(loop), server_(std::move(server)), patience_(patience), timer_(loop.timer([this] {
          const char* step = phase_ == Phase::resolving    ? "name resolution"
                             : phase_ == Phase::connecting ? "connecting"
                                                           : "the greeting";
          give_up(unavailable(candidate().text() + ": no answer to " + step + " in time"));
      })) {}

Dialer::~Dialer() { clear(); }

void Dialer::start(std::size_t first, Done done) {
    clear();
    done_ = std::move(done);
    current_ = first % server_->candidates.size();
    tried_ = 0;
    error_.reset();
    try_candidate();
}

void Dialer::stop() {
    clear();
    done_ = nullptr;
}

void Dialer::clear() {
    phase_ = Phase::idle;
    timer_->cancel();
    watch_.reset();
    stream_.reset();
    lookup_.reset();
    reader_.reset();
    addresses_.clear();
}

void Dialer::try_candidate() {
    phase_ = Phase::resolving;
    const auto share = patience_ / static_cast<long>(server_->candidates.size());
    timer_->set(loop_.now() + std::max(share, std::chrono::milliseconds(20)));
    lookup_ = std::make_unique<net::Lookup>(candidate().host, candidate().port);
    // Also when it is finished already: `done` must not be called inside start().
    watch_ = loop_.watch(lookup_->fd(), Loop::Interest::read, [this] { ready(); });
}

void Dialer::ready() {
    switch (phase_) {
        case Phase::idle:
            return;  // readiness that was on its way when the round ended
        case Phase::resolving:
            return resolved();
        case Phase::connecting:
            return connecting();
        case Phase::greeting:
            if (!out_.empty()) write_greeting();
            if (phase_ == Phase::greeting) read_greeting();
            return;
    }
}

void Dialer::resolved() {
    if (!lookup_->finished()) return;
    addresses_ = lookup_->addresses();
    next_address_ = 0;
    watch_.reset();
    if (addresses_.empty()) return give_up(unavailable(lookup_->error()));
    try_address();
}

void Dialer::try_address() {
    phase_ = Phase::connecting;
    const std::string& name = server_->tls_name.empty() ? candidate().host : server_->tls_name;
    const net::StreamOptions options{.tls = server_->tls,
                                     .tls_name = name,
                                     .unanswered = std::max(2 * patience_, std::chrono::milliseconds(1000))};
    std::string problem;
    stream_ = net::Stream::start(addresses_[next_address_++], options, problem);
    if (stream_ == nullptr) return give_up_address(problem, Fault::retry);
    watch_ = loop_.watch(stream_->fd(), Loop::Interest::write, [this] { ready(); });
}

void Dialer::connecting() {
    const net::Transfer step = stream_->advance();
    switch (step.io) {
        case net::Io::done:
            return send_greeting();
        case net::Io::want_read:
            return watch_->want(Loop::Interest::read);
        case net::Io::want_write:
            return watch_->want(Loop::Interest::write);
        case net::Io::closed:
            return give_up_address("closed the connection", Fault::retry);
        case net::Io::failed:
            return give_up_address(step.error, Fault::retry);
        case net::Io::refused:
            return give_up_address(step.error, Fault::fatal);
    }
}

void Dialer::send_greeting() {
    phase_ = Phase::greeting;
    reader_ = std::make_unique<ReplyReader>();
    answered_ = 0;
    expected_.clear();
    out_.clear();
    const auto add = [this](Command command, Expect expect) {
        out_ += command.take();
        expected_.push_back(expect);
    };
    if (!server_->user.empty())
        add({"AUTH", server_->user, server_->password}, Expect::ok);
    else if (!server_->password.empty())
        add({"AUTH", server_->password}, Expect::ok);
    if (!server_->db.empty()) add({"SELECT", server_->db}, Expect::ok);
    // Always something, so that a peer that is no Redis is found out before any request is sent to it.
    add({"CLIENT", "SETNAME", "dlock"}, Expect::any);
    if (server_->candidates.size() > 1) add({"ROLE"}, Expect::role);
    write_greeting();
}

void Dialer::write_greeting() {
    while (!out_.empty()) {
        const net::Transfer sent = stream_->write(out_.data(), out_.size());
        if (sent.io == net::Io::done) {
            out_.erase(0, sent.bytes);
            continue;
        }
        if (sent.io == net::Io::want_write) return watch_->want(Loop::Interest::read_write);
        if (sent.io == net::Io::want_read) break;
        return give_up_address(sent.error, Fault::retry);
    }
    watch_->want(Loop::Interest::read);
}

void Dialer::read_greeting() {
    std::array<char, 1024> buffer;
    const net::Transfer got = stream_->read(buffer.data(), buffer.size());
    if (got.io == net::Io::want_read || got.io == net::Io::want_write) return;
    if (got.io == net::Io::closed)
        return give_up_address("closed the connection during the greeting", Fault::retry);
    // With TLS 1.3 a server refuses a client's certificate only after the handshake.
    if (got.io != net::Io::done)
        return give_up_address(got.error, got.io == net::Io::refused ? Fault::fatal : Fault::retry);
    const bool fed = reader_->feed({buffer.data(), got.bytes});
    while (answered_ < expected_.size()) {
        ReplyPtr reply;
        const ReplyReader::Next next = fed ? reader_->next(reply) : ReplyReader::Next::broken;
        if (next == ReplyReader::Next::broken)
            return give_up({errc::store_error, candidate().text() + " does not speak the Redis protocol"});
        if (next == ReplyReader::Next::more) {
            if (stream_->buffered()) return read_greeting();
            return;
        }
        if (!check_greeting(*reply, expected_[answered_++])) return;
    }
    succeed();
}

bool Dialer::check_greeting(const redisReply& reply, Expect expect) {
    const auto refuse = [this](const Error& error) {
        give_up(
            {static_cast<errc>(error.code.value()), candidate().text() + ": " + error.detail, error.fault});
        return false;
    };
    if (is_error(reply)) {
        const Error error = error_of(text(reply));
        if (expect == Expect::ok || text(reply).starts_with("NOAUTH")) return refuse(error);
        // A right to CLIENT or ROLE may be missing; a replica shows itself by READONLY later.
        return trouble_of(text(reply)) == Trouble::none && error.fault != Fault::retry ? true : refuse(error);
    }
    if (expect == Expect::role) {
        if (!is_array(reply) || reply.elements == 0)
            return refuse({errc::store_error, "unexpected answer to ROLE"});
        if (text(at(reply, 0)) != "master")
            return refuse(unavailable("is a " + std::string(text(at(reply, 0))) + ", not the primary"));
        return true;
    }
    if (reply.type == REDIS_REPLY_STATUS && text(reply) == "OK") return true;
    return refuse({errc::store_error, "unexpected answer to the greeting"});
}

void Dialer::succeed() {
    Dialed dialed{.stream = stream_, .candidate = current_};
    clear();
    const Done done = std::move(done_);
    done(std::move(dialed));
}

void Dialer::give_up_address(const std::string& why, Fault fault) {
    if (next_address_ < addresses_.size() && phase_ == Phase::connecting) {
        watch_.reset();
        return try_address();
    }
    give_up({errc::unavailable, candidate().text() + ": " + why, fault});
}

void Dialer::give_up(Error why) {
    error_ = error_ ? joined(*error_, why) : std::move(why);
    clear();
    current_ = (current_ + 1) % server_->candidates.size();
    if (++tried_ < server_->candidates.size()) return try_candidate();
    const Done done = std::move(done_);
    done(std::move(*error_));
}

}  // namespace dlock::store::redis
