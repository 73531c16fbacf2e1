// SPDX-License-Identifier: Apache-2.0
/// The Redis store without a server: bytes, names, errors, URLs.
#include <fstream>
#include <set>

#include <unistd.h>

#include "store/redis/names.hpp"
#include "store/redis/resp.hpp"
#include "store/redis/server.hpp"
#include "unit/redis_fixture.hpp"

namespace dlock::store::redis {
namespace {

std::string read_all(ReplyReader& reader, std::string_view bytes) {
    std::string seen;
    EXPECT_TRUE(reader.feed(bytes));
    ReplyPtr reply;
    while (reader.next(reply) == ReplyReader::Next::reply) {
        seen += std::to_string(reply->type) + ":" + std::string(text(*reply)) +
                std::to_string(reply->integer) + ",";
        for (std::size_t i = 0; is_array(*reply) && i < reply->elements; ++i)
            seen += std::string(text(at(*reply, i))) + ";";
    }
    return seen;
}

TEST(RedisProtocol, ReadsTheSameHoweverTheBytesAreCut) {
    const std::string bytes =
        "+OK\r\n:1764530000000000\r\n*3\r\n:1\r\n$5\r\na\r\nbc\r\n$-1\r\n-ERR no\r\n*0\r\n$0\r\n\r\n";
    ReplyReader whole;
    const std::string expected = read_all(whole, bytes);
    EXPECT_EQ(std::count(expected.begin(), expected.end(), ','), 6);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
        ReplyReader reader;
        std::string seen = read_all(reader, std::string_view(bytes).substr(0, cut));
        seen += read_all(reader, std::string_view(bytes).substr(cut));
        EXPECT_EQ(seen, expected) << "cut at " << cut;
    }
}

TEST(RedisProtocol, SaysWhenBytesAreNoReplies) {
    for (const std::string_view garbage :
         {"HTTP/1.1 400 Bad Request\r\n", "%2\r\n", "*x\r\n", "$-7\r\n", ":12a\r\n"}) {
        ReplyReader reader;
        ReplyPtr reply;
        ASSERT_TRUE(reader.feed(garbage));
        EXPECT_EQ(reader.next(reply), ReplyReader::Next::broken) << garbage;
    }
}

TEST(RedisProtocol, WritesCommandsOfAnyBytes) {
    const std::string zero("\0\r\n", 3);
    EXPECT_EQ(Command({"SET", zero, ""}).take(), "*3\r\n$3\r\nSET\r\n$3\r\n" + zero + "\r\n$0\r\n\r\n");
    Command numbers(2);
    EXPECT_EQ(numbers.add("X").add(-1764530000000000).take(),
              "*2\r\n$1\r\nX\r\n$17\r\n-1764530000000000\r\n");
}

TEST(RedisProtocol, PutsTheTextOfAScriptInPlaceOfItsName) {
    const Script script("return KEYS[1]");
    EXPECT_EQ(Script("return 1").sha, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    Command command(script, 1, 1);
    const std::string wire = command.add("k").add("a").take();
    EXPECT_EQ(with_text(wire, script),
              "*5\r\n$4\r\nEVAL\r\n$14\r\nreturn KEYS[1]\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\na\r\n");
}

TEST(RedisProtocol, TellsWhatAnErrorMeans) {
    struct Row {
        std::string_view words;
        errc code;
        Fault fault;
        Trouble trouble;
    };
    const std::vector<Row> rows{
        {"WRONGTYPE Operation against a key", errc::foreign_record, Fault::fatal, Trouble::none},
        {"WRONGPASS invalid username-password pair", errc::unauthorized, Fault::fatal, Trouble::none},
        {"NOAUTH Authentication required.", errc::unauthorized, Fault::fatal, Trouble::none},
        {"NOPERM this user has no permissions", errc::unauthorized, Fault::fatal, Trouble::none},
        {"ERR ACL failure in script: no", errc::unauthorized, Fault::fatal, Trouble::none},
        {"ERR The user executing the script can't run this command", errc::unauthorized, Fault::fatal,
         Trouble::none},
        {"OOM command not allowed", errc::unavailable, Fault::retry, Trouble::none},
        {"BUSY Redis is busy running a script", errc::unavailable, Fault::retry, Trouble::none},
        {"TRYAGAIN Multiple keys request", errc::unavailable, Fault::retry, Trouble::none},
        {"MISCONF Errors writing to the AOF", errc::unavailable, Fault::retry, Trouble::none},
        {"LOADING Redis is loading the dataset", errc::unavailable, Fault::retry, Trouble::not_here},
        {"READONLY You can't write", errc::unavailable, Fault::retry, Trouble::not_here},
        {"MASTERDOWN Link with MASTER is down", errc::unavailable, Fault::retry, Trouble::not_here},
        {"NOSCRIPT No matching script", errc::store_error, Fault::fatal, Trouble::no_script},
        {"ERR DB index is out of range", errc::invalid_argument, Fault::fatal, Trouble::none},
        {"ERR something new", errc::store_error, Fault::fatal, Trouble::none},
        {"ERR Error running script (call to f_12ab): @user_script:3: WRONGTYPE Operation against",
         errc::foreign_record, Fault::fatal, Trouble::none},
        {"ERR Error running script (call to f_12ab): @user_script:9: @user_script: 9: READONLY You can't "
         "write",
         errc::unavailable, Fault::retry, Trouble::not_here},
    };
    for (const Row& row : rows) {
        const Error error = error_of(row.words);
        EXPECT_EQ(error, row.code) << row.words << " -> " << error.message();
        EXPECT_EQ(error.fault, row.fault) << row.words;
        EXPECT_EQ(trouble_of(row.words), row.trouble) << row.words;
    }
}

TEST(RedisNames, AreInjectiveAndComeBack) {
    const std::vector<std::string> keys{"a",       "{a}", "a}:line", "a}:tickets",
                                        "%7Ba%7D", "a%",  "a%25",    "{",
                                        "}",       "a*",  "ä",       std::string("\0\xff\r\n", 4),
                                        "floor",   "a/b"};
    std::set<std::string> names{std::string(floor_name)};
    for (const std::string& key : keys) {
        const Names made(key);
        for (const std::string& name : {made.record, made.line, made.tickets})
            EXPECT_TRUE(names.insert(name).second) << name << " twice";
        EXPECT_EQ(key_of(made.record), key);
        EXPECT_EQ(key_of(made.line), std::nullopt);
        EXPECT_EQ(std::count(made.record.begin(), made.record.end(), '{'), 1) << "one hash tag";
    }
    for (const std::string_view none :
         {"dlock:{}", "dlock:{%7b}", "dlock:{a}b}", "dlock:a", "dlock:{%4}", "x"})
        EXPECT_EQ(key_of(none), std::nullopt) << none;
}

TEST(RedisNames, PublicIdsOfOwnAndOtherTokens) {
    const GrantId id = grant(7);
    EXPECT_EQ(public_id_of_token(id.hex()), core::public_id(id));
    EXPECT_EQ(public_id_of_token("a-uuid"), core::public_id(std::string_view("a-uuid")));
    EXPECT_EQ(id_from_hex<GrantId>(id.hex()), id);
    std::string upper = id.hex();
    for (char& c : upper) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ(id_from_hex<GrantId>(upper), std::nullopt) << "another token than ours";
}

Result<Server> server_of(const std::string& url) {
    const Result<Url> parsed = Url::parse(url);
    if (!parsed) return parsed.error();
    return parse_server(*parsed);
}

TEST(RedisUrl, GivesHostsDatabaseAndSecrets) {
    const Server server = server_of("redis://ann:p%40ss@h1,h2:7000,[::1]:7001/12?layout=plain").value();
    ASSERT_EQ(server.candidates.size(), 3U);
    EXPECT_EQ(server.candidates[0].text(), "h1:6379");
    EXPECT_EQ(server.candidates[1].text(), "h2:7000");
    EXPECT_EQ(server.candidates[2].text(), "[::1]:7001");
    EXPECT_EQ(server.user, "ann");
    EXPECT_EQ(server.password, "p@ss");
    EXPECT_EQ(server.db, "12");
    EXPECT_EQ(server.layout, Layout::plain);
    EXPECT_EQ(server_of("redis://h/0").value().db, "");
}

TEST(RedisUrl, ReadsThePasswordFromAFile) {
    const std::string path = ::testing::TempDir() + "/dlock-redis-password-" + std::to_string(getpid());
    std::ofstream(path) << "from file\nsecond line\n";
    EXPECT_EQ(server_of("redis://h?password_file=" + path).value().password, "from file");
    EXPECT_EQ(failure_of(server_of("redis://:x@h?password_file=" + path)), errc::invalid_argument);
    std::remove(path.c_str());
    EXPECT_EQ(failure_of(server_of("redis://h?password_file=" + path)), errc::invalid_argument);
}

TEST(RedisUrl, RefusesWhatItDoesNotKnow) {
    for (const std::string url :
         {"redis://h/x", "redis://h/-1", "redis://h/1/2", "redis://h/99999999999", "redis://",
          "redis://h?lyout=plain", "redis://h?layout=spring", "redis://h?io=both", "redis://h?ca=/etc/ca.pem",
          "rediss://h?ca=/nowhere/ca.pem", "rediss://h?cert=/nowhere/c.pem"}) {
        const Result<Server> server = server_of(url);
        ASSERT_FALSE(server) << url;
        EXPECT_EQ(server.error(), errc::invalid_argument) << url;
        EXPECT_GT(server.error().detail.size(), 10U) << url;
    }
}

}  // namespace
}  // namespace dlock::store::redis
