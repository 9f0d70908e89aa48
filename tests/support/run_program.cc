#include "tests/support/run_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "runtime/base/status.h"
#include "tests/support/temporary_directory.h"

extern char** environ;

namespace strata {
namespace {

std::string Slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Environment(const std::vector<std::string>& changes) {
  std::vector<std::string> all = changes;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    bool is_changed = false;
    for (const std::string& change : changes) {
      const size_t length = change.find('=') + 1;
      is_changed = is_changed || text.compare(0, length, change, 0, length) == 0;
    }
    if (!is_changed) all.push_back(text);
  }
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ProgramRun RunProgram(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment) {
  const TemporaryDirectory directory;
  std::vector<std::string> texts = arguments;
  std::vector<std::string> variables = Environment(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  for (const auto& [descriptor, name] : {std::pair(1, "out"), std::pair(2, "err")}) {
    posix_spawn_file_actions_addopen(&actions, descriptor, directory.File(name).c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }
  pid_t child = 0;
  const int error = posix_spawn(&child, texts[0].c_str(), &actions, nullptr,
                                Pointers(texts).data(), Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  STRATA_CHECK(error == 0);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) STRATA_CHECK(errno == EINTR);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          Slurp(directory.File("out")), Slurp(directory.File("err"))};
}

}  // namespace strata
