#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/group_members.h"
#include "tests/support/nccl_fault.h"
#include "tutti/cluster/environment.h"

// tests/nccl/fake_nccl.cpp, an NCCL that adds in the memory of this process what threads bring on the streams of
// simulated devices.
namespace tutti {

// A fake of the test's own: another file is another library, with a state of its own.
class FakeNccl {
 public:
  explicit FakeNccl(NcclFault fault = NcclFault::none, int rank = -1);
  // Nothing of it may be left, and no call may have been wrong.
  ~FakeNccl();
  FakeNccl(const FakeNccl&) = delete;

  // From now on, of the member of this rank; -1: of all.
  void set(NcclFault fault, int rank = -1) const;
  void set_version(int version) const;
  cluster::Environment environment() const;
  std::string path() const { return path_; }
  // The members that have begun to join and have neither left nor were aborted.
  int num_alive() const { return number("fake_nccl_num_alive"); }
  int num_aborted() const { return number("fake_nccl_num_aborted"); }
  // What was done wrong first, as far as the fake has seen; empty: nothing.
  std::string complaint() const;
  // The same, once: from now on nothing was done wrong.
  std::string take_complaint() const;
  // The names of the functions that move something, in the order in which rank 0 called them, each behind a space.
  std::string calls() const;

 private:
  template <class Function>
  Function* function(const char* name) const {
    const auto found = reinterpret_cast<Function*>(dlsym(library_, name));
    EXPECT_TRUE(found) << name;
    return found;
  }
  int number(const char* name) const { return function<int()>(name)(); }
  std::string text(const char* name) const;

  std::filesystem::path path_;
  void* library_;
};

// Members that are threads, on the simulated devices of their ranks. What is run on them is in device memory, but for
// what says otherwise: that of this process, which the fake can read.
Groups nccl_of_threads(int size, std::chrono::milliseconds timeout);
// The same with a fake and companions of one's own, and errors of those that did not join, as "code: text".
struct JoinedByNccl {
  Groups groups;
  std::vector<std::string> errors;
};
JoinedByNccl join_by_nccl(
    Groups companions, std::chrono::milliseconds timeout,
    const std::function<cluster::Environment(int rank)>& environment,
    const std::function<int(int rank)>& device = [](int rank) { return rank; });

}  // namespace tutti
