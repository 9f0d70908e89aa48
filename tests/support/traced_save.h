/// A process that trains two steps and saves after each, watched through its second
/// save call by call, so that a test can end it at any instant it likes.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace strata {

struct TracedSave {
  int calls = 0;  // that change files, until the end or the kill
  bool killed = false;
};

/// Saves checkpoint-1 and checkpoint-2 in `path`, keeping one; a run of id "traced".
/// The process is killed when it is about to make the `last_call`-th system call of its
/// second save that changes files, right after `before_kill` was called; 0: never.
TracedSave SaveTwice(const std::string& path, int last_call,
                     const std::function<void()>& before_kill = {});

/// Up to `count` of the calls 1 to `calls`, in an order that is always the same.
std::vector<int> SomeCalls(int calls, int count);

/// The N of an argument "--calls=N" or "--calls=all"; `usual` without one.
int CallsToTry(int argc, char** argv, int usual);

}  // namespace strata
