#include "tutti/cluster/cluster_spec.h"

#include <algorithm>
#include <charconv>

#include "tutti/core/error.h"

namespace tutti::cluster {
namespace {

constexpr size_t kMaxNameBytes = 128, kMaxAddressBytes = 512;

bool is_visible(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::invalid_argument, what); }

int read_index(JsonReader& reader, std::string_view key) {
  int index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || end != key.data() + key.size() || index < 0)
    reader.fail("the key of a task is its index, a number from 0");
  return index;
}

ClusterSpec::Job read_job(JsonReader& reader) {
  ClusterSpec::Job job;
  const auto add = [&](int index) {
    if (job.size() == kMaxTasks) reader.fail(str("a cluster has at most ", kMaxTasks, " tasks"));
    if (!job.emplace(index, reader.text()).second) reader.fail(str("task ", index, " comes twice"));
  };
  if (reader.at_array())
    reader.array([&] { add(static_cast<int>(job.size())); });
  else
    reader.object([&](std::string_view key) { add(read_index(reader, key)); });
  return job;
}

}  // namespace

ClusterSpec::ClusterSpec(const Jobs& jobs) {
  for (const auto& [name, addresses] : jobs) {
    if (addresses.size() > kMaxTasks) refuse(str("a cluster has at most ", kMaxTasks, " tasks"));
    Job& job = jobs_[name];
    for (size_t i = 0; i < addresses.size(); ++i) job.emplace(static_cast<int>(i), addresses[i]);
  }
  check();
}

ClusterSpec ClusterSpec::of_indexed(std::map<std::string, Job> jobs) {
  ClusterSpec spec;
  spec.jobs_ = std::move(jobs);
  spec.check();
  return spec;
}

ClusterSpec ClusterSpec::of_size(const std::string& job, int size) {
  if (size < 0 || size > kMaxTasks) refuse(str("a cluster has at most ", kMaxTasks, " tasks, not ", size));
  return ClusterSpec({{job, std::vector<std::string>(static_cast<size_t>(size))}});
}

ClusterSpec ClusterSpec::parse(std::string_view json, std::string_view source) {
  try {
    JsonReader reader(json, source);
    ClusterSpec spec = read(reader);
    reader.end();
    return spec;
  } catch (const Error& error) {
    refuse(error.what());
  }
}

ClusterSpec ClusterSpec::read(JsonReader& reader) {
  std::map<std::string, Job> jobs;
  int num_tasks = 0;
  reader.object([&](std::string_view name) {
    Job job = read_job(reader);
    num_tasks += static_cast<int>(job.size());
    if (num_tasks > kMaxTasks) reader.fail(str("a cluster has at most ", kMaxTasks, " tasks"));
    jobs.emplace(name, std::move(job));
  });
  return of_indexed(std::move(jobs));
}

void ClusterSpec::check() const {
  for (const auto& [name, job] : jobs_) {
    if (name.empty() || name.size() > kMaxNameBytes || !is_visible(name))
      refuse(str("the name of a job has 1 to ", kMaxNameBytes, " visible characters; this one has ", name.size(),
                 is_visible(name) ? "" : ", not all of them visible"));
    for (const auto& [index, address] : job) {
      if (index < 0) refuse(str("a task's index is a number from 0, not ", index));
      if (address.size() > kMaxAddressBytes || !is_visible(address))
        refuse(str("the address of ", name, ' ', index, " is no host:port: it has ", address.size(),
                   " characters, of which at most ", kMaxAddressBytes, " are allowed, all of them visible"));
    }
  }
  if (num_tasks() > kMaxTasks) refuse(str("a cluster has at most ", kMaxTasks, " tasks"));
}

bool ClusterSpec::has(const Task& task) const {
  const auto job = jobs_.find(task.type);
  return job != jobs_.end() && job->second.contains(task.index);
}

int ClusterSpec::num_tasks(const std::string& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? 0 : static_cast<int>(found->second.size());
}

int ClusterSpec::num_tasks() const {
  size_t count = 0;
  for (const auto& [name, job] : jobs_) count += job.size();
  return static_cast<int>(std::min<size_t>(count, kMaxTasks + 1));
}

const std::string& ClusterSpec::address(const Task& task) const {
  const auto job = jobs_.find(task.type);
  if (job == jobs_.end()) refuse(str("the cluster has no job '", task.type, "': ", to_string(*this)));
  const auto address = job->second.find(task.index);
  if (address == job->second.end()) refuse(str("the cluster has no ", to_string(task), ": ", to_string(*this)));
  return address->second;
}

std::string to_string(const ClusterSpec& spec) {
  std::string text = "{";
  for (const auto& [name, job] : spec.jobs()) {
    const bool has_gaps = !job.empty() && job.rbegin()->first != static_cast<int>(job.size()) - 1;
    text += str(text.size() > 1 ? ", " : "", json_text(name), has_gaps ? ": {" : ": [");
    const char* separator = "";
    for (const auto& [index, address] : job) {
      text += separator;
      if (has_gaps) text += str('"', index, "\": ");
      text += json_text(address);
      separator = ", ";
    }
    text += has_gaps ? '}' : ']';
  }
  return text + '}';
}

}  // namespace tutti::cluster
