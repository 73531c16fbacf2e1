// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sqlite_support.hpp"
#include "store/sqlite/location.hpp"

namespace dlock::store::sqlite {
namespace {

using ::testing::HasSubstr;

class SqliteFile : public ::testing::Test {
protected:
    TempFolder folder;
    std::string file = folder.path("locks.db");

    static mode_t mode(const std::string& path) {
        struct stat status {};
        return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
    }
    /// The error of a first acquire.
    static Error refused(const std::string& path) {
        Rig rig(path);
        return error_of(rig.acquire("k", new_id<GrantId>()));
    }
    static Result<Location> at(const std::string& url) { return Location::from(Url::parse(url).value()); }
};

TEST_F(SqliteFile, url_forms) {
    EXPECT_EQ(at("sqlite:/a/b.db")->path(), "/a/b.db");
    EXPECT_EQ(at("sqlite:///a/b.db")->path(), "/a/b.db");
    EXPECT_EQ(at("sqlite:/a/b%20c.db")->path(), "/a/b c.db");
    EXPECT_EQ(at("sqlite:b.db")->path(), std::filesystem::current_path().string() + "/b.db");
    for (const char* bad :
         {"sqlite:", "sqlite:/", "sqlite:/a/", "sqlite://host/a.db", "sqlite:/a.db?mode=ro"})
        EXPECT_TRUE(at(bad).error() == errc::invalid_argument) << bad;
    EXPECT_TRUE(at("sqlite:/" + std::string(500, 'x')).error() == errc::invalid_argument);
}

TEST_F(SqliteFile, a_missing_folder_is_named_with_the_remedy) {
    const Error error = refused(folder.path("no/such/locks.db"));
    EXPECT_TRUE(error == errc::unavailable);
    EXPECT_EQ(error.fault, Fault::fatal);
    EXPECT_THAT(error.detail, HasSubstr("mkdir -p '" + folder.path("no/such") + "'"));
    Rig rig(folder.path("no/such/locks.db"));
    EXPECT_THAT(rig.inspect({}).error().detail, HasSubstr("mkdir -p"));
}

TEST_F(SqliteFile, a_folder_is_not_a_database) {
    EXPECT_TRUE(refused(folder.path()) == errc::invalid_argument);
    std::filesystem::create_symlink(folder.path("gone"), folder.path("link"));
    EXPECT_THAT(refused(folder.path("link")).detail, HasSubstr("leads nowhere"));
}

TEST_F(SqliteFile, private_unless_the_folder_is_the_groups) {
    const mode_t before = umask(0);
    {
        Rig rig(file);
        rig.hold("k");
        for (const char* suffix : {"", "-wal", "-shm", "-line"})
            EXPECT_EQ(mode(file + suffix), 0600U) << suffix;
    }
    umask(077);
    const std::string shared = folder.path("shared");
    std::filesystem::create_directory(shared);
    chmod(shared.c_str(), 02770);
    {
        Rig rig(shared + "/locks.db");
        rig.hold("k");
        for (const char* suffix : {"", "-wal", "-shm", "-line"})
            EXPECT_EQ(mode(shared + "/locks.db" + suffix), 0660U) << suffix;
    }
    const std::string open_to_all = folder.path("tmp");
    std::filesystem::create_directory(open_to_all);
    chmod(open_to_all.c_str(), 01777);
    {
        Rig rig(open_to_all + "/locks.db");
        rig.hold("k");
        EXPECT_EQ(mode(open_to_all + "/locks.db"), 0600U);
    }
    umask(before);
    int others = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
        others += entry.path().filename().string().find("-new-") != std::string::npos ? 1 : 0;
    EXPECT_EQ(others, 0) << "files of the making were left";
}

TEST_F(SqliteFile, an_empty_file_becomes_a_database) {
    std::ofstream(file).close();
    Rig rig(file);
    rig.hold("k");
    EXPECT_EQ(Raw(file).one("PRAGMA application_id"), "1684824939");
    EXPECT_EQ(Raw(file).one("PRAGMA user_version"), "1");
    EXPECT_EQ(Raw(file).one("PRAGMA journal_mode"), "wal");
}

TEST_F(SqliteFile, links_to_one_file_are_one_store) {
    Rig rig(file);
    rig.hold("k");
    std::filesystem::create_symlink(file, folder.path("link.db"));
    Rig other(folder.path("link.db"));
    EXPECT_TRUE(std::holds_alternative<Contended>(other.acquire("k", new_id<GrantId>())));
    EXPECT_FALSE(std::filesystem::exists(folder.path("link.db-wal")));
}

TEST_F(SqliteFile, garbage_is_refused_and_left_alone) {
    const std::string text = "This is not a database. " + std::string(5000, '!');
    std::ofstream(file) << text;
    const Error error = refused(file);
    EXPECT_TRUE(error == errc::foreign_record) << error.message();
    EXPECT_THAT(error.detail, HasSubstr(file));
    std::ifstream again(file);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(again), {}), text);
    Rig rig(file);
    EXPECT_TRUE(rig.inspect({}).error() == errc::foreign_record);
    std::ofstream(file) << "short";
    EXPECT_TRUE(refused(file) == errc::foreign_record);
}

TEST_F(SqliteFile, the_database_of_another_program_is_refused) {
    Raw(file).run("CREATE TABLE customers(name TEXT)");
    EXPECT_TRUE(refused(file) == errc::foreign_record);
    EXPECT_EQ(Raw(file).one("SELECT count(*) FROM sqlite_schema"), "1");
    EXPECT_EQ(Raw(file).one("PRAGMA journal_mode"), "delete") << "its journal mode was changed";
    const std::string marked = folder.path("marked.db");
    Raw(marked).run("PRAGMA application_id = 77");
    EXPECT_TRUE(refused(marked) == errc::foreign_record);
}

TEST_F(SqliteFile, a_newer_layout_is_never_touched) {
    { Rig(file).hold("k"); }
    Raw(file).run("PRAGMA user_version = 2");
    const Error error = refused(file);
    EXPECT_TRUE(error == errc::foreign_record);
    EXPECT_THAT(error.detail, HasSubstr("newer"));
    EXPECT_EQ(Raw(file).one("SELECT version FROM dlock_locks"), "1");
}

TEST_F(SqliteFile, missing_tables_are_not_made_again) {
    { Rig(file).hold("k"); }
    Raw(file).run("DROP TABLE dlock_tickets");
    EXPECT_TRUE(refused(file) == errc::not_initialised);
    EXPECT_EQ(Raw(file).one("SELECT count(*) FROM sqlite_schema WHERE name = 'dlock_tickets'"), "0");
    // While it is open, too.
    const std::string other = folder.path("other.db");
    Rig rig(other);
    rig.hold("k");
    Raw(other).run("DROP TABLE dlock_locks");
    EXPECT_TRUE(error_of(rig.acquire("k", new_id<GrantId>())) == errc::not_initialised);
}

TEST_F(SqliteFile, a_damaged_database_is_an_error_that_says_so) {
    { Rig(file).fence("k"); }
    Raw(file).run("PRAGMA wal_checkpoint(TRUNCATE)");
    {
        std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
        bytes.seekp(2048);
        for (int i = 0; i < 3 * 2048; ++i) bytes.put('\x5a');
    }
    const Error error = refused(file);
    EXPECT_TRUE(error == errc::store_error) << error.message();
    EXPECT_THAT(error.detail, HasSubstr("damaged"));
}

/// Root may write everything: for a while as somebody else, to whom the folder is given.
class NotRoot {
public:
    explicit NotRoot(const std::string& folder) : user_(geteuid()) {
        if (user_ != 0) return;
        EXPECT_EQ(chown(folder.c_str(), 65534, 65534), 0);
        EXPECT_EQ(seteuid(65534), 0);
    }
    NotRoot(const NotRoot&) = delete;
    NotRoot& operator=(const NotRoot&) = delete;
    ~NotRoot() { EXPECT_EQ(seteuid(user_), 0); }

private:
    uid_t user_;
};

TEST_F(SqliteFile, a_file_without_the_right_to_write_is_an_error_that_says_so) {
    const NotRoot somebody(folder.path());
    { Rig(file).hold("k"); }
    chmod(file.c_str(), 0400);
    Error error = refused(file);
    EXPECT_TRUE(error == errc::unauthorized) << error.message();
    EXPECT_THAT(error.detail, HasSubstr("no right to write " + file));
    EXPECT_EQ(Rig(file).list().locks.size(), 1U) << "who may read may look";
    chmod(file.c_str(), 0000);
    EXPECT_TRUE(refused(file) == errc::unauthorized);
    chmod(file.c_str(), 0600);
    {
        Rig rig(file);
        EXPECT_TRUE(std::holds_alternative<Contended>(rig.acquire("k", new_id<GrantId>())));
    }
    chmod(folder.path().c_str(), 0500);
    error = refused(folder.path("new.db"));
    EXPECT_TRUE(error == errc::unauthorized) << error.message();
    EXPECT_THAT(error.detail, HasSubstr("cannot make " + folder.path("new.db")));
    chmod(folder.path().c_str(), 0700);
}

TEST_F(SqliteFile, a_deleted_database_is_noticed) {
    Rig rig(file);
    Rig other(file);
    const GrantId mine = rig.hold("k");
    EXPECT_TRUE(std::holds_alternative<Contended>(other.acquire("k", new_id<GrantId>())));
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file + suffix);
    other.hold("k");
    EXPECT_EQ(rig.renew("k", mine).renewal, Renewal::lost);
    EXPECT_TRUE(std::holds_alternative<Contended>(rig.acquire("k", new_id<GrantId>())));
    EXPECT_EQ(rig.release("k", mine).value(), Released::not_owner);
}

TEST_F(SqliteFile, a_swapped_database_is_noticed) {
    Rig rig(file);
    const GrantId mine = rig.hold("k");
    const std::string backup = folder.path("backup.db");
    { Rig(backup).hold("k"); }
    Raw(backup).run("PRAGMA wal_checkpoint(TRUNCATE)");
    for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(file + suffix);
    std::filesystem::rename(backup, file);
    EXPECT_TRUE(std::holds_alternative<Contended>(rig.acquire("k", new_id<GrantId>())));
    EXPECT_EQ(rig.renew("k", mine).renewal, Renewal::lost);
    EXPECT_NE(rig.show("k").holders.at(0).public_id, core::public_id(mine));
}

TEST_F(SqliteFile, nothing_is_granted_long_after_the_log_was_deleted) {
    Rig rig(file);
    const GrantId mine = rig.hold("k");
    for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(file + suffix);
    // What only this process can still see must not count for more than a moment.
    const TimePoint until = rig.loop.now() + patience;
    while (rig.renew("k", mine).renewal == Renewal::renewed) ASSERT_LT(rig.loop.now(), until);
    std::filesystem::remove(file);
    rig.hold("k");
}

TEST_F(SqliteFile, a_full_disk_is_an_error_and_passes) {
    Rig rig(file);
    rig.hold("held", 60s);
    Error error(errc::store_error, "never full");
    {
        const FullDisk full(1U << 16U);
        for (int i = 0; i < 1000 && !(error == errc::unavailable); ++i)
            error = error_of(rig.acquire("k" + std::to_string(i) + std::string(900, 'x'), new_id<GrantId>()));
    }
    EXPECT_TRUE(error == errc::unavailable);
    EXPECT_THAT(error.detail, HasSubstr("no space left"));
    EXPECT_EQ(error.fault, Fault::retry);
    EXPECT_EQ(rig.show("held").holders.size(), 1U);
    rig.hold("k");
    EXPECT_EQ(Raw(file).one("PRAGMA integrity_check"), "ok");
}

TEST_F(SqliteFile, a_full_disk_does_not_stop_the_keys_that_are_known) {
    Rig rig(file);
    rig.fence("k");
    Raw(file).run("PRAGMA wal_checkpoint(TRUNCATE)");
    const FullDisk full(1U << 16U);
    for (int i = 0; i < 200; ++i) ASSERT_GT(rig.fence("k"), 0U) << "400 commits of 2 KiB in 64 KiB: " << i;
}

TEST_F(SqliteFile, network_file_systems_are_told_apart) {
    EXPECT_EQ(network_file_system(0x6969, ""), "nfs");
    EXPECT_EQ(network_file_system(static_cast<long>(0xFF534D42), ""), "cifs");
    EXPECT_EQ(network_file_system(static_cast<int>(0xFF534D42), ""), "cifs") << "as a 32-bit statfs gives it";
    EXPECT_EQ(network_file_system(0x01021997, ""), "9p");
    EXPECT_EQ(network_file_system(0x65735546, "fuse.sshfs"), "fuse.sshfs");
    EXPECT_EQ(network_file_system(0x65735546, ""), "fuse");
    EXPECT_EQ(network_file_system(0x65735546, "fuseblk"), std::nullopt);
    EXPECT_EQ(network_file_system(0xEF53, ""), std::nullopt);      // ext4
    EXPECT_EQ(network_file_system(0x01021994, ""), std::nullopt);  // tmpfs
}

}  // namespace
}  // namespace dlock::store::sqlite
