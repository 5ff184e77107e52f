#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/bytes.h"
#include "tutti/data/graph/element.h"

namespace tutti::data::graph {

// The tables of a graph's sources, in an order that only the graph decides.
using Tables = std::vector<std::shared_ptr<const Table>>;

// Where an iterator is, as bytes.
class StateWriter {
 public:
  // Elements that are rows of these tables are written as such, others with their values.
  explicit StateWriter(Tables tables) : tables_(std::move(tables)) {}

  void number(int64_t value) { bytes_.number(value); }
  void text(const std::string& value) { bytes_.text(value); }
  void leaf(const Leaf& leaf);  // in host memory: a tensor elsewhere is copied there
  void element(const Element& element);

  // Everything written: uint8 [bytes].
  Tensor finish() const;

 private:
  Tables tables_;
  ByteWriter bytes_;
};

// Reads what a StateWriter wrote, in the same order. Nothing in it is believed.
// Throws, from every member: data_loss for a state that is damaged or of another dataset.
class StateReader {
 public:
  StateReader(const Tensor& state, Tables tables);

  int64_t number() { return bytes_.number(); }
  int64_t number_in(int64_t first, int64_t last) { return bytes_.number_in(first, last); }  // both included
  bool flag() { return number_in(0, 1) != 0; }
  std::string text() { return bytes_.text(); }
  Leaf leaf();
  Element element();

  // Throws unless everything was read.
  void finish() const { bytes_.finish(); }

 private:
  Tensor state_;
  Tables tables_;
  ByteReader bytes_;
};

}  // namespace tutti::data::graph
