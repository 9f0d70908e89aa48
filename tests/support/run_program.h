/// Runs a program as a user would: arguments in, exit code and output back.
#pragma once

#include <string>
#include <vector>

namespace strata {

struct ProgramRun {
  int exit_code = -1;  // 128 + signal if a signal ended it
  std::string output;  // standard output
  std::string errors;  // standard error
};

/// `arguments` begin with the program's path. `environment`: "NAME=value", in place of
/// this process's variables of those names. Standard input is empty.
ProgramRun RunProgram(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment);

}  // namespace strata
