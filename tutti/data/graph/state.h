#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/core/bytes.h"
#include "tutti/data/graph/context.h"
#include "tutti/data/graph/element.h"

namespace tutti::data::graph {

struct Node;
using Tables = std::vector<std::shared_ptr<const Table>>;

// Where an iterator is, as bytes.
class StateWriter {
 public:
  // Elements that are rows of these tables are written as such, others with their values.
  explicit StateWriter(Tables tables);
  // Keeps the operations' names and arguments, their seeds among them, and nothing else.
  static StateWriter of_ops();
  const std::vector<std::string>& ops() const { return ops_; }

  // Those of the iterator whose state follows.
  void use(std::shared_ptr<const PassNumbers> numbers) { numbers_ = std::move(numbers); }
  const PassNumbers* numbers() const { return numbers_.get(); }
  // Begins the state of a graph's passes: its operations' shared state. Rows of its sources are written as such from
  // here on.
  void graph(const Node& graph);

  // Begins the state of an operation: the reader's dataset must have the same one, with the same arguments. They are
  // all that changes its elements, but for functions; call_text() writes those that are no integers.
  void op(const std::string& name, const std::vector<int64_t>& arguments = {});

  // Behind op(): the seed that the program gave, of which only of_ops() tells, for a state goes on with its own.
  void given_seed(std::optional<uint64_t> seed);

  void number(int64_t value);
  void text(const std::string& value);
  // Throws: unimplemented for a dtype whose values are not numbers of whole bytes, as of quantized tensors.
  void leaf(const Leaf& leaf);
  void element(const Element& element);
  void elements(std::span<const Element> elements);
  // Its first `rows` rows, or all; once for all that have it. Its rows are then written as such.
  void table(const std::shared_ptr<const Table>& table, std::optional<int64_t> rows = {});
  // What comes back is an Error of the same text, and of the same code if this is one, else failed_precondition.
  void error(const std::exception_ptr& error);

  // Everything written: uint8 [bytes].
  Tensor finish() const;

 private:
  void values(const std::vector<Leaf>& leaves, const Keys& keys);

  Tables tables_;  // they live as long as their addresses are used
  std::unordered_map<const Table*, int64_t> places_;
  std::shared_ptr<const PassNumbers> numbers_;
  ByteWriter bytes_;
  bool ops_only_ = false;
  std::vector<std::string> ops_;
};

// Reads what a StateWriter wrote, in the same order. Nothing in it is believed.
// Throws, from every member: data_loss for a state that is damaged; op() failed_precondition for one of another
// dataset.
class StateReader {
 public:
  StateReader(const Tensor& state, Tables tables);
  void use(std::shared_ptr<PassNumbers> numbers) { numbers_ = std::move(numbers); }
  PassNumbers* numbers() const { return numbers_.get(); }
  void graph(const Node& graph);

  void op(const std::string& name, const std::vector<int64_t>& arguments = {});
  int64_t number() { return bytes_.number(); }
  int64_t number_in(int64_t first, int64_t last) { return bytes_.number_in(first, last); }  // both included
  bool flag() { return number_in(0, 1) != 0; }
  std::string text() { return bytes_.text(); }
  Leaf leaf();  // where it was: on the host, or on a device of the same name
  Element element();
  std::vector<Element> elements();
  std::shared_ptr<const Table> table();
  std::exception_ptr error();
  [[noreturn]] void refuse(const std::string& what) const { bytes_.damaged(what); }

  // What is to be done to shared state when the whole state was found good and nobody uses what it replaces.
  void when_restored(std::function<void()> change) { changes_.push_back(std::move(change)); }

  // Throws unless everything was read.
  void finish() const { bytes_.finish(); }
  void restored() const;

 private:
  Element values();

  Tensor state_;
  Tables tables_;
  ByteReader bytes_;
  std::shared_ptr<PassNumbers> numbers_;
  int depth_ = 0;  // of elements in datasets in elements
  std::vector<std::function<void()>> changes_;
};

}  // namespace tutti::data::graph
