#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tutti/data/graph/random.h"

// What operations on failing elements must give, by the rule that an error takes the place of one element.
namespace tutti::data {

// What a pass gives, place by place: numbers, or an error.
using Place = std::optional<std::vector<double>>;
using Places = std::vector<Place>;
inline Place place_of(double number) { return std::vector<double>{number}; }

inline double total_of(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}
inline bool is_one_of_eight(double total, uint64_t salt) {
  return graph::SplitMix64(static_cast<uint64_t>(static_cast<int64_t>(total)) ^ salt).next() % 8 == 0;
}

inline void fail_one_of_eight(Places& places, uint64_t salt) {
  for (Place& place : places)
    if (place && is_one_of_eight(total_of(*place), salt)) place.reset();
}

inline Places shard_of(const Places& places, int64_t count, int64_t index) {
  Places own;
  for (auto i = static_cast<size_t>(index); i < places.size(); i += static_cast<size_t>(count))
    own.push_back(places[i]);
  return own;
}

inline void keep_first_of_equal(Places& places) {
  std::set<std::vector<double>> seen;
  std::erase_if(places, [&](const Place& place) { return place && !seen.insert(*place).second; });
}

// Of those that are no errors.
inline void add_running_total(Places& places) {
  double total = 0;
  for (Place& place : places) {
    if (!place) continue;
    total += total_of(*place);
    for (double& value : *place) value += total;
  }
}

// Of all places, errors too.
inline void add_numbers(Places& places, int64_t start) {
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i])
      for (double& value : *places[i]) value += static_cast<double>(static_cast<size_t>(start) + i);
}

// Each plus the total of the other's.
inline Places sums_of_pairs(const Places& places, const Places& others) {
  Places pairs;
  for (size_t i = 0; i < places.size(); ++i) {
    const bool ends = i >= others.size();
    if (ends && places[i]) break;
    pairs.emplace_back();
    if (ends) break;
    if (!places[i] || !others[i]) continue;
    pairs.back() = places[i];
    for (double& value : *pairs.back()) value += total_of(*others[i]);
  }
  return pairs;
}

// Rows, cut into batches of these sizes; errors come at once.
inline Places batches_of(const Places& rows, const std::vector<size_t>& sizes, bool drop_remainder) {
  Places batches;
  std::vector<double> batch;
  size_t slot = 0;
  for (const Place& place : rows) {
    if (!place) batches.emplace_back();
    if (!place) continue;
    for (const double row : *place) {
      batch.push_back(row);
      if (batch.size() < sizes[slot]) continue;
      batches.emplace_back(std::exchange(batch, {}));
      slot = (slot + 1) % sizes.size();
    }
  }
  if (!batch.empty() && !drop_remainder) batches.emplace_back(batch);
  return batches;
}

// Each as the elements that it holds.
inline Places windows_of(const Places& places, int64_t size, int64_t shift, int64_t stride, bool drop_remainder) {
  const size_t span = static_cast<size_t>((size - 1) * stride + 1);
  Places windows;
  std::vector<double> kept;
  size_t to_skip = 0, at = 0;
  while (true) {
    at = std::min(at + to_skip, places.size());
    for (; kept.size() < span && at < places.size(); ++at) {
      if (places[at])
        kept.push_back(places[at]->front());
      else
        windows.emplace_back();
    }
    if (kept.empty() || (drop_remainder && kept.size() < span)) break;
    std::vector<double> one;
    for (size_t i = 0; i < kept.size(); i += static_cast<size_t>(stride)) one.push_back(kept[i]);
    windows.emplace_back(one);
    const size_t done = std::min(static_cast<size_t>(shift), kept.size());
    kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(done));
    to_skip = static_cast<size_t>(shift) - done;
  }
  return windows;
}

// An interleaved function makes of an element the range from its total to this.
inline int64_t end_of_made(int64_t total) { return total + (total & 3); }

inline Places made_of(const std::vector<double>& values, uint64_t salt) {
  Places made;
  const auto total = static_cast<int64_t>(total_of(values));
  for (int64_t i = total; i < end_of_made(total); ++i) made.push_back(place_of(static_cast<double>(i)));
  fail_one_of_eight(made, salt);
  return made;
}

// The elements of the ranges, `block_length` of each at a time. Some elements fail, and some of what is made of others.
inline Places in_turn(const Places& places, size_t cycle_length, int64_t block_length, uint64_t salt) {
  struct Open {
    Places places;
    size_t next = 0;
  };
  std::vector<std::optional<Open>> cycle(cycle_length);
  Places out;
  size_t slot = 0, next = 0;
  int64_t taken = 0;
  const auto move_on = [&] {
    slot = (slot + 1) % cycle.size();
    taken = 0;
  };
  for (size_t empty = 0; empty < cycle.size();) {
    auto& open = cycle[slot];
    if (!open && next < places.size()) {
      const Place& place = places[next++];
      empty = 0;
      if (!place || is_one_of_eight(total_of(*place), salt)) {
        out.emplace_back();
        continue;
      }
      open = Open{made_of(*place, salt + 1)};
    }
    if (!open) {
      ++empty;
      move_on();
    } else if (open->next < open->places.size()) {
      out.push_back(open->places[open->next++]);
      if (out.back() && ++taken == block_length) move_on();
      empty = 0;
    } else {
      open.reset();
      empty = 0;
      move_on();
    }
  }
  return out;
}

}  // namespace tutti::data
