#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/cluster/task.h"
#include "tutti/core/json.h"

namespace tutti::cluster {

constexpr int kMaxTasks = 65'536;  // of a cluster; more is taken for a mistake, before memory is given to them

// Which tasks a cluster has, and where they listen. A value. Indices may have gaps. An address is "host:port"; it is
// empty where the launcher told none and tasks meet otherwise. TF: tf.train.ClusterSpec.
class ClusterSpec {
 public:
  using Job = std::map<int, std::string>;  // addresses by index

  ClusterSpec() = default;
  // Throws: invalid_argument for a name or an address that can be none, and for more than kMaxTasks tasks.
  using Jobs = std::map<std::string, std::vector<std::string>>;
  ClusterSpec(const Jobs& jobs);
  ClusterSpec(std::initializer_list<Jobs::value_type> jobs) : ClusterSpec(Jobs(jobs)) {}
  static ClusterSpec of_indexed(std::map<std::string, Job> jobs);
  // `size` tasks of one job, without addresses.
  static ClusterSpec of_size(const std::string& job, int size);
  // {"worker": ["a:2222", "b:2222"], "ps": {"3": "c:2222"}}. For text from anywhere. Throws: invalid_argument, with the
  // byte. `source` names the text in messages.
  static ClusterSpec parse(std::string_view json, std::string_view source = "cluster");
  // The same, as a part of a larger text. Throws also what the reader throws.
  static ClusterSpec read(JsonReader& reader);

  const std::map<std::string, Job>& jobs() const { return jobs_; }
  bool is_empty() const { return jobs_.empty(); }
  bool has(const std::string& job) const { return jobs_.contains(job); }
  bool has(const Task& task) const;
  // Tasks of a job, 0 for one that is not there; of all jobs.
  int num_tasks(const std::string& job) const;
  int num_tasks() const;
  // Throws: invalid_argument for a task that is not there.
  const std::string& address(const Task& task) const;

  bool operator==(const ClusterSpec&) const = default;

 private:
  void check() const;

  std::map<std::string, Job> jobs_;
};

// As parse() reads it.
std::string to_string(const ClusterSpec& spec);

}  // namespace tutti::cluster
