// SPDX-License-Identifier: Apache-2.0
#include "unit/redis_fixture.hpp"

#include <array>
#include <map>

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dlock::store::redis {
namespace {

Result<std::unique_ptr<Store>> open(const std::string& url, Loop& loop, std::string instance,
                                    milliseconds timeout) {
    const Result<Url> parsed = Url::parse(url);
    if (!parsed) return parsed.error();
    return open_redis(*parsed, {.loop = loop, .instance = std::move(instance), .call_timeout = timeout});
}

template <class Id>
Id numbered(unsigned number) {
    Id id;
    for (std::size_t i = 0; i < 4; ++i) id.bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
    id.bytes[15] = 0xAB;
    return id;
}

}  // namespace

StoreClient::StoreClient(const std::string& url, milliseconds call_timeout, std::string instance)
    : store_(open(url, loop_, std::move(instance), call_timeout).value()),
      owner_(std::make_shared<const Owner>()) {}

StoreClient::~StoreClient() {
    loop_.stop();
    store_.reset();
}

SubjectPtr StoreClient::subject(const std::string& key) const {
    return std::make_shared<const Subject>(Key(key), owner_);
}

Call StoreClient::call(Route route, milliseconds limit) const {
    return {.deadline = BootClock::now() + limit, .route = route};
}

AcquireRequest StoreClient::request(const std::string& key, const GrantId& attempt, Ask ask) const {
    AcquireRequest request;
    request.subject = subject(key);
    request.attempt = attempt;
    request.lease = ask.lease;
    request.mode = ask.mode;
    request.permits = ask.permits;
    request.converts = ask.converts;
    request.results = ask.results;
    request.place.ticket = ask.ticket;
    request.place.ticket_lease = ask.ticket_lease;
    if (ask.ticket != TicketId{}) request.place.line = Place::Line::join;
    if (ask.rejoins) request.place.after_grant = Place::AfterGrant::rejoin;
    return request;
}

std::future<AcquireAnswer> StoreClient::start_acquire(const std::string& key, const GrantId& attempt,
                                                      Ask ask) {
    auto promise = std::make_shared<std::promise<AcquireAnswer>>();
    auto future = promise->get_future();
    store_->acquire(request(key, attempt, ask), call(ask.route, ask.limit),
                    [promise](AcquireAnswer answer) { promise->set_value(std::move(answer)); });
    return future;
}

AcquireAnswer StoreClient::acquire(const std::string& key, const GrantId& attempt, Ask ask) {
    auto future = start_acquire(key, attempt, ask);
    if (future.wait_for(patience) != std::future_status::ready)
        throw std::runtime_error("no answer from the store");
    return future.get();
}

std::vector<RenewAnswer> StoreClient::renew(std::vector<RenewItem> items, Route route, milliseconds limit) {
    return answer_of<std::vector<RenewAnswer>>(
        [&](auto done) { store_->renew(std::move(items), call(route, limit), done); });
}

RenewAnswer StoreClient::renew(const std::string& key, const GrantId& attempt, milliseconds lease,
                               const std::string& handle) {
    return renew({RenewItem{.subject = subject(key), .id = attempt, .lease = lease, .handle = handle}})
        .front();
}

RenewAnswer StoreClient::renew(const std::string& key, const TicketId& id, milliseconds lease) {
    return renew({RenewItem{.subject = subject(key), .id = id, .lease = lease, .handle = {}}}).front();
}

Result<Released> StoreClient::release(const std::string& key, const GrantId& attempt,
                                      std::optional<TicketId> id, Route route) {
    ReleaseRequest request;
    request.subject = subject(key);
    request.attempt = attempt;
    request.ticket = id;
    return answer_of<Result<Released>>([&](auto done) { store_->release(request, call(route), done); });
}

Result<Released> StoreClient::release(const ReleaseRequest& request) {
    return answer_of<Result<Released>>([&](auto done) { store_->release(request, call(), done); });
}

Result<Configured> StoreClient::configure(const std::string& key, std::uint32_t permits,
                                          std::optional<std::uint32_t> if_current) {
    const ConfigureRequest request{.key = Key(key), .permits = permits, .if_current = if_current};
    return answer_of<Result<Configured>>([&](auto done) { store_->configure(request, call(), done); });
}

Result<Page> StoreClient::list(const Filter& filter) {
    return answer_of<Result<Page>>(
        [&](auto done) { store_->inspect({.filter = filter, .only = std::nullopt}, call(), done); });
}

Result<Page> StoreClient::show(const std::string& key) {
    return answer_of<Result<Page>>(
        [&](auto done) { store_->inspect({.filter = {}, .only = Key(key)}, call(), done); });
}

Result<Forced> StoreClient::force(const std::string& key, const std::string& seen) {
    return answer_of<Result<Forced>>([&](auto done) { store_->force_release(Key(key), seen, call(), done); });
}

Owner named(std::string service) {
    Owner owner;
    owner.service = std::move(service);
    return owner;
}

GrantId grant(unsigned number) { return numbered<GrantId>(number); }
TicketId ticket(unsigned number) { return numbered<TicketId>(number); }

std::uint64_t fence_of(const AcquireAnswer& answer) {
    const auto* granted = std::get_if<Granted>(&answer);
    if (granted == nullptr || !granted->fence) {
        const auto* error = std::get_if<Error>(&answer);
        ADD_FAILURE() << "not granted: "
                      << (error != nullptr ? error->message() : std::to_string(answer.index()));
        return 0;
    }
    return granted->fence->value;
}

Error error_of_answer(const AcquireAnswer& answer) {
    if (const auto* error = std::get_if<Error>(&answer)) return *error;
    ADD_FAILURE() << "no error but alternative " << answer.index();
    return {errc::store_error, "no error"};
}

FakeServer::FakeServer(Answer answer, Pieces pieces) : answer_(std::move(answer)), pieces_(pieces) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    stop_ = eventfd(0, EFD_CLOEXEC);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 16) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw std::runtime_error("the fake server cannot listen");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
}

FakeServer::~FakeServer() {
    eventfd_write(stop_, 1);
    thread_.join();
    close(listener_);
    close(stop_);
}

void FakeServer::run() {
    std::map<int, std::unique_ptr<redisReader, decltype(&redisReaderFree)>> clients;
    for (;;) {
        std::vector<pollfd> fds{{stop_, POLLIN, 0}, {listener_, POLLIN, 0}};
        for (const auto& [fd, reader] : clients) fds.push_back({fd, POLLIN, 0});
        poll(fds.data(), fds.size(), -1);
        if (fds[0].revents != 0) break;
        if (fds[1].revents != 0) {
            const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            constexpr int on = 1;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            clients.emplace(fd, std::unique_ptr<redisReader, decltype(&redisReaderFree)>(redisReaderCreate(),
                                                                                         redisReaderFree));
        }
        for (std::size_t i = 2; i < fds.size(); ++i) {
            if (fds[i].revents == 0) continue;
            std::array<char, 4096> buffer;
            const ssize_t n = read(fds[i].fd, buffer.data(), buffer.size());
            redisReader* reader = clients.at(fds[i].fd).get();
            if (n <= 0) {
                clients.erase(fds[i].fd);
                close(fds[i].fd);
                continue;
            }
            redisReaderFeed(reader, buffer.data(), static_cast<std::size_t>(n));
            for (void* raw = nullptr; redisReaderGetReply(reader, &raw) == REDIS_OK && raw != nullptr;) {
                auto* command = static_cast<redisReply*>(raw);
                std::vector<std::string> parts;
                for (std::size_t k = 0; k < command->elements; ++k)
                    parts.emplace_back(command->element[k]->str, command->element[k]->len);
                freeReplyObject(raw);
                const std::string answer = answer_(parts);
                const std::size_t step =
                    pieces_ == Pieces::bytes ? 1 : std::max<std::size_t>(answer.size(), 1);
                for (std::size_t at = 0; at < answer.size(); at += step)
                    send(fds[i].fd, answer.data() + at, std::min(step, answer.size() - at), MSG_NOSIGNAL);
            }
        }
    }
    for (const auto& [fd, reader] : clients) close(fd);
}

}  // namespace dlock::store::redis
