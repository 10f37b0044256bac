// The state of the check for races in global memory between blocks (global_races.cpp).
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/lanes/table.hpp"

namespace ado::emulator {

// Epochs of clusters, as a tree with 4 bits of the cluster's index per level. Trees are not
// modified: a new tree shares the nodes that do not change.
struct EpochNode;
using Epochs = std::shared_ptr<const EpochNode>;
struct EpochNode {
  static constexpr int kBits = 4, kChildren = 1 << kBits;
  std::array<Epochs, kChildren> children;
  std::array<u16, kChildren> epochs{};  // of the leaves
};

// One access in 64 bits. 0: no access.
struct Touch {
  static constexpr int kSiteBits = 16, kThreadBits = 10, kEpochBits = 12, kBlockBits = 26;
  u64 site : kSiteBits = 0;      // index of Program::accesses
  u64 thread : kThreadBits = 0;  // in the block
  u64 epoch : kEpochBits = 0;
  u64 block : kBlockBits = 0;  // index plus 1, in the order of the clusters
};

// The order of a cluster's accesses relative to those of other clusters.
struct Order {
  u32 first = 0, size = 1;         // its blocks, as in Touch
  u32 epoch = 1;                   // incremented by a fence
  u32 fenced = 0;                  // accesses up to this epoch precede a fence
  bool accessed = false;           // since the last fence
  Epochs known;                    // accesses of other clusters that all warps are ordered after
  bool warps_know = false;         // the warps' Known may contain more
  std::unordered_set<u64> agreed;  // words in which another block has stored the same value
};

// Accesses of other clusters that a warp is ordered after, in addition to Order::known.
struct Known {
  Epochs known, observed;  // observed: become known at the next fence or barrier
};

// The last accesses of the bytes of a page. Entries comprise 32 bytes, 4 bytes or one byte, as the
// accesses require.
struct ShadowPage {
  static constexpr int kBits = 12;
  struct Entry {
    std::array<Touch, 2> writers, readers;  // of different blocks
  };
  std::mutex lock;
  std::mutex updates;  // atomic operations are recorded in the order of their execution
  int entry_bits = 5;  // binary logarithm of the bytes per entry
  std::vector<Entry> entries{std::size_t{1} << (kBits - entry_bits)};
  std::unordered_map<u64, Epochs> released;  // by strong stores, per word
};

// State that the workers of a launch share.
struct GlobalShadow {
  struct Race {
    Touch touch[2];  // the lower block first
    bool wrote[2];
    u64 address;
    auto key() const {
      return std::tuple(touch[0].block, touch[1].block, touch[0].site, touch[1].site, address);
    }
  };
  int clock_bits = 0;  // of a cluster's index
  std::mutex lock;
  std::unordered_map<u64, std::unique_ptr<ShadowPage>> pages;
  std::optional<Race> race;  // the first one in an order that does not depend on the schedule
};

// The pages that a worker has used, by the lowest bits of their numbers.
using ShadowPages = std::vector<std::pair<u64, ShadowPage*>>;

}  // namespace ado::emulator
