/// What a container without io_uring, or without libaio too, gets: the next backend, a
/// reason, and the same bytes; and an error if the backend was forced.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>

#include "tests/support/backends.h"
#include "tests/support/deny_syscalls.h"
#include "tests/support/page_buffer.h"
#include "tests/support/temp_directory.h"
#include "tests/support/wait.h"
#include "tiers/nvme_store.h"

namespace strata {
namespace {

struct Denial {
  const char* name;
  std::vector<int> syscalls;
  int error_number;
  bool uring_works;
  std::string wanted;  // in the description of the automatic choice
};

std::vector<Denial> Denials() {
  return {
      {"setup",
       {SYS_io_uring_setup},
       EPERM,
       false,
       ": libaio, because io_uring does not work"},
      {"old_kernel", {SYS_io_uring_setup}, ENOSYS, false, "older than 5.1"},
      {"enter",
       {SYS_io_uring_enter},
       EPERM,
       false,
       ": libaio, because io_uring does not work"},
      {"register", {SYS_io_uring_register}, EPERM, true, "files not registered"},
      {"both", {SYS_io_uring_setup, SYS_io_setup}, EPERM, false, ": threads, because"},
  };
}

NvmeStoreOptions Options(const std::string& path, IoBackend backend) {
  NvmeStoreOptions options;
  options.directories = {{.path = path}};
  options.capacity_bytes = 4 * kMiB;
  options.extent_count_max = 1;
  options.io_backend = backend;
  return options;
}

/// Runs in a child. The exit code says what went wrong.
int UseStore(const Denial& denial, const std::string& path) {
  DenySyscalls(denial.syscalls, denial.error_number);
  auto store = NvmeStore::Create(Options(path, IoBackend::kAuto));
  if (!store.ok()) {
    std::cerr << store.status() << "\n";
    return 1;
  }
  const std::string description = (*store)->descriptions().at(0);
  std::cerr << description << "\n";
  if (description.find(denial.wanted) == std::string::npos) return 2;
  PageBuffer source(4 * kMiB, 1);
  PageBuffer target(4 * kMiB);
  const int64_t size = source.size_bytes();
  if (!WaitForWrites(**store, (*store)->Write(0, source.data(), size, "all")).ok()) {
    return 3;
  }
  if (!WaitForReads(**store, (*store)->Read(0, target.data(), size, "all")).ok())
    return 4;
  return source == target ? 0 : 5;
}

int ForceUring(const Denial& denial, const std::string& path) {
  DenySyscalls(denial.syscalls, denial.error_number);
  const auto store = NvmeStore::Create(Options(path, IoBackend::kIoUring));
  std::cerr << store.status() << "\n";
  if (store.ok() != denial.uring_works) return 1;
  if (store.ok()) return 0;
  const absl::string_view message = store.status().message();
  return message.find("io_backend io_uring does not work") != std::string::npos ? 0 : 2;
}

class IoQueueDeniedTest : public testing::TestWithParam<Denial> {
 protected:
  template <typename Body>
  int RunInChild(Body body) {
    const pid_t child = fork();
    if (child == 0) _exit(body(GetParam(), directory_.path()));
    int status = 0;
    STRATA_CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -status;
  }

  TempDirectory directory_;
};

TEST_P(IoQueueDeniedTest, TheNextBackendTakesOverAndSaysWhy) {
  EXPECT_EQ(RunInChild(UseStore), 0);
  EXPECT_TRUE(ListTree(directory_.path()).empty());
}

TEST_P(IoQueueDeniedTest, AForcedBackendWorksOrFailsClearly) {
  EXPECT_EQ(RunInChild(ForceUring), 0);
  EXPECT_TRUE(ListTree(directory_.path()).empty());
}

INSTANTIATE_TEST_SUITE_P(, IoQueueDeniedTest, testing::ValuesIn(Denials()),
                         [](const auto& denial) { return denial.param.name; });

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (strata::WorkingBackends().size() != strata::kIoBackends.size()) {
    std::cerr << "SKIPPED: what is denied already cannot be denied by the test\n";
    return strata::kSkipped;
  }
  return RUN_ALL_TESTS();
}
