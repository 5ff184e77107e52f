#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tutti/data/graph/element.h"

namespace tutti::data::graph {

// The tables of a graph's sources, in an order that only the graph decides.
using Tables = std::vector<std::shared_ptr<const Table>>;

// Where an iterator is, as bytes: numbers as 8 bytes, little-endian; text, tensors and elements behind their lengths.
class StateWriter {
 public:
  // Elements that are rows of these tables are written as such, others with their values.
  explicit StateWriter(Tables tables) : tables_(std::move(tables)) {}

  void number(int64_t value);
  void text(const std::string& value);
  void leaf(const Leaf& leaf);  // in host memory: a tensor elsewhere is copied there
  void element(const Element& element);

  // Everything written: uint8 [bytes].
  Tensor finish() const;

 private:
  void bytes(const void* from, size_t count);

  Tables tables_;
  std::vector<uint8_t> bytes_;
};

// Reads what a StateWriter wrote, in the same order. Nothing in it is believed.
// Throws, from every member: data_loss for a state that is damaged or of another dataset.
class StateReader {
 public:
  StateReader(Tensor state, Tables tables);

  int64_t number();
  int64_t number_in(int64_t first, int64_t last);  // both included
  bool flag() { return number_in(0, 1) != 0; }
  std::string text();
  Leaf leaf();
  Element element();

  // Throws unless everything was read.
  void finish() const;

 private:
  const uint8_t* bytes(uint64_t count);
  uint64_t left() const;

  Tensor state_;
  Tables tables_;
  uint64_t position_ = 0;
};

}  // namespace tutti::data::graph
