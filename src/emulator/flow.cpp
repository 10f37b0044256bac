// Control flow of a kernel: basic blocks, reconvergence, and memory for registers.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "emulator/program.hpp"

namespace ado::emulator {
namespace {

// Calls visit(operand, is_result) for all registers of an instruction.
template <class Visit>
void for_operands(Program& p, Inst& inst, const Visit& visit) {
  if (inst.guard != kNone) visit(inst.guard, false);
  const auto visit_extra = [&](Extra& extra) {
    const auto results = static_cast<std::size_t>(extra.results);
    for (std::size_t i = results; i < extra.registers.size(); ++i)
      if (extra[i] != kNone) visit(extra.registers[i], false);
    for (std::size_t i = 0; i < results; ++i)
      if (extra[i] != kNone) visit(extra.registers[i], true);
  };
  if (inst.op == Op::kCopyBulk || inst.op == Op::kMbarrier)
    return visit_extra(p.extras[p.accesses[inst.aux].extra]);
  if (inst.op == Op::kMatrix) return visit_extra(p.extras[p.matrices[inst.aux].extra]);
  if (inst.op == Op::kLoad || inst.op == Op::kStore || inst.op == Op::kAtomic ||
      inst.op == Op::kCopyAsync) {
    Access& access = p.accesses[inst.aux];
    visit(access.address, false);
    if (access.operand != kNone) visit(access.operand, false);
    if (access.second != kNone) visit(access.second, false);
    if (inst.op == Op::kLoad || inst.op == Op::kStore || (access.atomic && access.count > 1))
      for (int i = 0; i < access.count; ++i) visit(access.data[i], inst.op == Op::kLoad);
    if (access.atomic && access.count > 1)
      for (int i = 0; i < access.count; ++i)
        if (auto& old = access.data[Access::kOldValues + i]; old != kNone) visit(old, true);
    if (access.result != kNone) visit(access.result, true);
    return;
  }
  const bool is_number = inst.op == Op::kBranch || inst.op == Op::kWaitGroup ||
                         inst.op == Op::kWaitBulk || inst.op == Op::kGroupWait ||
                         inst.op == Op::kGroupCheck;
  if (!is_number && inst.aux != kNone) visit_extra(p.extras[inst.aux]);
  for (u32* operand : {&inst.a, &inst.b, &inst.c})
    if (*operand != kNone) visit(*operand, false);
  if (inst.d != kNone) visit(inst.d, true);
}

bool ends_block(const Inst& inst) { return inst.op == Op::kBranch || inst.op == Op::kExit; }

class Flow {
 public:
  Flow(Program& p, const std::vector<u8>& register_bytes, const std::vector<int>& labels,
       const std::vector<Cost>& costs)
      : p_(p), bytes_(register_bytes), labels_(labels), costs_(costs) {}

  void run() {
    split();
    find_reconvergence();
    share_constants();
    find_variables();
    find_group_uses();
    assign_costs();
    compact();
    find_lives();
    assign_memory();
  }

 private:
  void split() {
    const int size = static_cast<int>(p_.code.size());
    std::vector<bool> leads(size + 1, false), targets(size + 1, false);
    leads[0] = true;
    for (int i = 0; i < size; ++i) {
      if (p_.code[i].op == Op::kBranch)
        leads[labels_[p_.code[i].aux]] = targets[labels_[p_.code[i].aux]] = true;
      if (ends_block(p_.code[i])) leads[i + 1] = true;
    }
    block_of_.assign(size + 1, -1);
    for (int i = 0; i < size; ++i) {
      if (leads[i]) {
        if (!p_.blocks.empty()) p_.blocks.back().end = i;
        p_.blocks.push_back({.begin = i, .end = size, .costs = {}});
      }
      block_of_[i] = static_cast<int>(p_.blocks.size()) - 1;
    }
    const int blocks = static_cast<int>(p_.blocks.size());
    next_.resize(blocks);
    for (int b = 0; b < blocks; ++b) {
      Inst& last = p_.code[p_.blocks[b].end - 1];
      if (last.op == Op::kBranch) {
        last.aux = static_cast<u32>(block_of_[labels_[last.aux]]);
        next_[b].push_back(static_cast<int>(last.aux));
        p_.blocks[b].backward = static_cast<int>(last.aux) <= b;
      }
      if (!ends_block(last) || last.guard != kNone) next_[b].push_back(b + 1);
    }
    std::vector<int> last(blocks);  // the last block of the same condition
    for (int b = blocks - 1; b >= 0; --b) {
      last[b] = b;
      const Inst& branch = p_.code[p_.blocks[b].end - 1];
      p_.blocks[b].target = static_cast<int>(branch.aux);
      if (b + 1 == blocks || !is_condition(branch, b)) continue;
      const Block &next = p_.blocks[b + 1], &end = p_.blocks[last[b + 1]];
      const bool joins =
          is_condition(p_.code[end.end - 1], last[b + 1]) && !targets[next.begin] &&
          std::all_of(p_.code.begin() + next.begin, p_.code.begin() + next.end - 1,
                      [](const Inst& i) { return i.op == Op::kAlu || i.op == Op::kNop; });
      const bool branches = p_.blocks[b].target == end.target;
      if (!joins || !(branches || p_.blocks[b].target == last[b + 1] + 1)) continue;
      p_.blocks[b].joins = branches ? Block::Joins::kBranching : Block::Joins::kGoingOn;
      p_.blocks[b].target = end.target;
      last[b] = last[b + 1];
      p_.blocks[b].on = last[b] + 1;
    }
  }

  // Returns true for a conditional branch of block b that skips at least the next block.
  static bool is_condition(const Inst& inst, int b) {
    return inst.op == Op::kBranch && inst.guard != kNone && static_cast<int>(inst.aux) > b + 1;
  }

  // Immediate post-dominators: dominators of the reversed graph, whose root is the exit.
  void find_reconvergence() {
    const int blocks = static_cast<int>(p_.blocks.size()), exit = blocks;
    std::vector<std::vector<int>> previous(blocks + 1);
    for (int b = 0; b < blocks; ++b) {
      for (int n : next_[b]) previous[n].push_back(b);
      const Inst& last = p_.code[p_.blocks[b].end - 1];
      if (last.op == Op::kExit) previous[exit].push_back(b);
    }
    std::vector<int> order, number(blocks + 1, -1);  // post-order from the exit
    std::vector<std::pair<int, std::size_t>> stack{{exit, 0}};
    std::vector<bool> seen(blocks + 1, false);
    seen[exit] = true;
    while (!stack.empty()) {
      auto& [node, at] = stack.back();
      if (at < previous[node].size()) {
        const int n = previous[node][at++];
        if (!seen[n]) seen[n] = true, stack.emplace_back(n, 0);
      } else {
        number[node] = static_cast<int>(order.size());
        order.push_back(node);
        stack.pop_back();
      }
    }
    std::vector<int> dominator(blocks + 1, -1);
    dominator[exit] = exit;
    for (bool changed = true; changed;) {
      changed = false;
      for (auto node = order.rbegin(); node != order.rend(); ++node) {
        if (*node == exit) continue;
        int common = -1;
        std::vector<int> successors = next_[*node];
        if (p_.code[p_.blocks[*node].end - 1].op == Op::kExit) successors.push_back(exit);
        for (int n : successors) {
          if (dominator[n] < 0) continue;
          if (common < 0) {
            common = n;
            continue;
          }
          int a = n, b = common;
          while (a != b) {
            while (number[a] < number[b]) a = dominator[a];
            while (number[b] < number[a]) b = dominator[b];
          }
          common = a;
        }
        if (common != dominator[*node]) dominator[*node] = common, changed = true;
      }
    }
    for (int b = 0; b < blocks; ++b)
      p_.blocks[b].reconverges = dominator[b] == exit ? -1 : dominator[b];
  }

  // A register whose only definition is a copy of a constant or of a thread's coordinate is
  // replaced.
  void share_constants() {
    std::vector<int> definitions(bytes_.size(), 0);
    std::vector<u32> alias(bytes_.size(), kNone);
    for (Inst& inst : p_.code)
      for_operands(p_, inst, [&](u32& r, bool result) {
        if (result && !(r & kConstantBit)) ++definitions[r];
      });
    for (Inst& inst : p_.code) {
      const bool copies = inst.op == Op::kAlu && inst.mode == 1 && inst.guard == kNone;
      if (!copies || definitions[inst.d] != 1) continue;
      const bool immutable = (inst.a & kConstantBit) || inst.a < kThreadValues;
      if (!immutable) continue;
      alias[inst.d] = inst.a;
      inst = Inst{};
    }
    for (Inst& inst : p_.code)
      for_operands(p_, inst, [&](u32& r, bool) {
        if (!(r & kConstantBit) && alias[r] != kNone) r = alias[r];
      });
  }

  // Finds the variable in shared memory of an access: the only one from which its address is
  // computed. Addresses that are loaded, or that have different definitions, are not followed.
  void find_variables() {
    constexpr u32 kUnknown = ~0u, kSeveral = ~0u - 1;
    constexpr int kSteps = 16;
    if (p_.variables.empty()) return;
    std::vector<u32> of(bytes_.size(), kUnknown), next;
    const auto known = [&](u32 r) {
      const u32 v = r == kNone         ? 0
                    : r & kConstantBit ? p_.constants[r & ~kConstantBit].variable
                                       : of[r];
      return v == kUnknown ? 0 : v;
    };
    for (int step = 0; of != next; ++step) {
      if (step == kSteps) return;
      if (step > 0) of = std::move(next);
      next.assign(bytes_.size(), kUnknown);
      for (Inst& inst : p_.code) {
        u32 found = 0;
        if (inst.op == Op::kAlu)
          for (const u32 r : {inst.a, inst.b, inst.c})
            if (const u32 v = known(r); v != 0) found = found == 0 || found == v ? v : kSeveral;
        for_operands(p_, inst, [&](u32& r, bool result) {
          if (!result || (r & kConstantBit)) return;
          next[r] = next[r] == kUnknown || next[r] == found ? found : kSeveral;
        });
      }
    }
    for (Access& a : p_.accesses) {
      const u32 v = a.space == Space::kShared || a.space == Space::kGeneric ? known(a.address) : 0;
      if (v == 0 || v == kSeveral) continue;
      a.variable = v, a.first = p_.variables[v - 1].first, a.last = p_.variables[v - 1].last;
    }
  }

  // The state of registers while products of wgmma run, by `tracked_`.
  struct GroupState {
    static constexpr u8 kIdle = 255;
    std::vector<u8> age;  // commit groups since the product that uses the register; kIdle: none
    std::vector<u32> product;  // index of Program::matrices
    // Position of the place (decode.cpp) of an ordinary write since the last wgmma.fence, or -1.
    std::vector<int> written;

    bool join(const GroupState& other) {
      bool changed = false;
      for (std::size_t r = 0; r < age.size(); ++r) {
        if (other.age[r] < age[r])
          age[r] = other.age[r], product[r] = other.product[r], changed = true;
        if (other.written[r] > written[r]) written[r] = other.written[r], changed = true;
      }
      return changed;
    }
  };

  // Inserts checks where registers of wgmma.mma_async may be used before wgmma.wait_group, or
  // without wgmma.fence. The checks report only products that run and writes that have happened,
  // so paths that are never taken do not matter. Copies of registers move the state.
  void find_group_uses() {
    if (!p_.uses_groups) return;
    const std::size_t registers = track_groups(), blocks = p_.blocks.size();
    const GroupState nothing{std::vector<u8>(registers, GroupState::kIdle),
                             std::vector<u32>(registers), std::vector<int>(registers, -1)};
    std::vector<GroupState> in(blocks, nothing);
    std::vector<bool> waits(blocks, true);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t b = 0; b < blocks; ++b) {
        if (!waits[b]) continue;
        waits[b] = false;
        GroupState out = in[b];
        follow_group(static_cast<int>(b), out, false);
        for (const int n : next_[b])
          if (in[n].join(out)) waits[n] = changed = true;
      }
    }
    for (std::size_t b = 0; b < blocks; ++b) follow_group(static_cast<int>(b), in[b], true);
  }

  // Numbers the operands and results of products, and their copies. Returns how many there are.
  std::size_t track_groups() {
    u32 count = 0;
    tracked_.assign(bytes_.size(), kNone);
    const auto track = [&](u32 r) {
      if (!(r & kConstantBit) && tracked_[r] == kNone) tracked_[r] = count++;
    };
    for (const MatrixProduct& m : p_.matrices)
      for (const MatrixProduct::Fragment* f : {&m.a, &m.c})
        for (int k = 0; k < f->count && m.access != kNone; ++k)
          track(p_.extras[m.extra][f->first + k]);
    for (u32 before = 0; before != count;) {
      before = count;
      for (const Inst& inst : p_.code) {
        if (!copies(inst)) continue;
        if (tracked_[inst.a] != kNone) track(inst.d);
        if (tracked_[inst.d] != kNone) track(inst.a);
      }
    }
    return count;
  }
  static bool copies(const Inst& inst) {
    return inst.op == Op::kAlu && inst.mode == 1 && inst.guard == kNone && !(inst.a & kConstantBit);
  }

  // Follows a block and, if `inserts`, makes checks of places.
  void follow_group(int b, GroupState& s, bool inserts) {
    int place = -1;
    const auto check_at = [&](int position) -> GroupCheck& {
      Inst& inst = p_.code[position];
      if (inst.op == Op::kNop) {
        inst.op = Op::kGroupCheck;
        inst.aux = static_cast<u32>(p_.group_checks.size());
        p_.group_checks.push_back({.line = p_.line_of_code[position]});
      }
      return p_.group_checks[inst.aux];
    };
    for (int i = p_.blocks[b].begin; i < p_.blocks[b].end; ++i) {
      Inst& inst = p_.code[i];
      if (inst.op == Op::kNop || inst.op == Op::kGroupCheck) {
        place = i;
      } else if (inst.op == Op::kGroupFence) {
        std::fill(s.written.begin(), s.written.end(), -1);
      } else if (inst.op == Op::kGroupCommit) {
        for (u8& age : s.age) age += age < GroupState::kIdle - 1;
      } else if (inst.op == Op::kGroupWait) {
        for (u8& age : s.age)
          if (age > inst.aux) age = GroupState::kIdle;
      } else if (inst.op == Op::kMatrix && p_.matrices[inst.aux].access != kNone) {
        const MatrixProduct& m = p_.matrices[inst.aux];
        for (const MatrixProduct::Fragment* f : {&m.a, &m.c})
          for (int k = 0; k < f->count && !f->shared; ++k) {
            const u32 operand = p_.extras[m.extra][f->first + k];
            if (operand & kConstantBit) continue;
            const u32 r = tracked_[operand];
            if (inserts && s.written[r] >= 0 && place >= 0) {
              check_at(s.written[r]).marks = true;
              const u32 other = p_.code[s.written[r]].aux;
              std::vector<u32>& unfenced = check_at(place).unfenced;
              if (unfenced.empty() || unfenced.back() != other) unfenced.push_back(other);
            }
            s.age[r] = 0, s.product[r] = inst.aux;
          }
      } else if (copies(inst)) {
        const u32 to = tracked_[inst.d], from = tracked_[inst.a];
        if (to == kNone) continue;
        s.age[to] = s.age[from], s.product[to] = s.product[from], s.written[to] = s.written[from];
      } else {
        for_operands(p_, inst, [&](u32& operand, bool result) {
          if ((operand & kConstantBit) || tracked_[operand] == kNone) return;
          const u32 r = tracked_[operand];
          if (s.age[r] != GroupState::kIdle && inserts && place >= 0) {
            GroupCheck& check = check_at(place);
            check.running.push_back(s.product[r]);
            check.writes = result;
          }
          if (!result) return;
          s.written[r] = place;
          if (inst.guard == kNone) s.age[r] = GroupState::kIdle;
        });
      }
    }
  }

  void assign_costs() {
    for (const Cost& cost : costs_) {
      Block& block = p_.blocks[block_of_[cost.position]];
      ++block.instructions;
      auto at = std::find_if(block.costs.begin(), block.costs.end(),
                             [&](const LineCost& c) { return c.line == cost.line; });
      if (at == block.costs.end()) at = block.costs.insert(at, {.line = cost.line});
      ++at->instructions;
      for (int i = 0; i < kCounted; ++i) at->operations[i] += cost.operations[i];
    }
  }

  // Removes instructions that do nothing.
  void compact() {
    std::size_t to = 0;
    for (Block& block : p_.blocks) {
      const int begin = block.begin, end = block.end;
      block.begin = static_cast<int>(to);
      for (int i = begin; i < end; ++i) {
        if (p_.code[i].op == Op::kNop) continue;
        p_.line_of_code[to] = p_.line_of_code[i];
        p_.code[to++] = p_.code[i];
      }
      block.end = static_cast<int>(to);
    }
    p_.code.resize(to);
    p_.line_of_code.resize(to);
  }

  using Bits = std::vector<u64>;
  static bool has(const Bits& set, u32 r) { return (set[r / 64] >> (r % 64)) & 1; }
  static void put(Bits& set, u32 r) { set[r / 64] |= u64{1} << (r % 64); }

  // The first and last position at which a register holds a value. A use is at 2 i, a result at
  // 2 i + 1. Only element-wise instructions may write a register that they read.
  void find_lives() {
    const std::size_t words = (bytes_.size() + 63) / 64, blocks = p_.blocks.size();
    std::vector<Bits> used(blocks, Bits(words)), defined(blocks, Bits(words)),
        in(blocks, Bits(words));
    begin_.assign(bytes_.size(), -1);
    end_.assign(bytes_.size(), -1);
    const auto extend = [&](u32 r, int position) {
      if (begin_[r] < 0 || position < begin_[r]) begin_[r] = position;
      end_[r] = std::max(end_[r], position);
    };
    for (std::size_t b = 0; b < blocks; ++b)
      for (int i = p_.blocks[b].begin; i < p_.blocks[b].end; ++i) {
        Inst& inst = p_.code[i];
        const bool alu = inst.op == Op::kAlu;
        for_operands(p_, inst, [&](u32& r, bool result) {
          if (r & kConstantBit) return;
          if (!result || inst.guard != kNone) {
            if (!has(defined[b], r)) put(used[b], r);
          }
          extend(r, 2 * i + (result || !alu ? 1 : 0));
        });
        if (inst.guard == kNone)
          for_operands(p_, inst, [&](u32& r, bool result) {
            if (result && !(r & kConstantBit)) put(defined[b], r);
          });
      }
    Bits out(words);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t b = blocks; b-- > 0;) {
        std::fill(out.begin(), out.end(), 0);
        for (int n : next_[b])
          for (std::size_t w = 0; w < words; ++w) out[w] |= in[n][w];
        for (std::size_t w = 0; w < words; ++w) {
          const u64 live = used[b][w] | (out[w] & ~defined[b][w]);
          if (live != in[b][w]) in[b][w] = live, changed = true;
        }
      }
    }
    for (std::size_t b = 0; b < blocks; ++b) {
      const auto extend_all = [&](const Bits& set, int position) {
        for (std::size_t w = 0; w < words; ++w)
          for (u64 left = set[w]; left != 0; left &= left - 1)
            extend(static_cast<u32>(64 * w + __builtin_ctzll(left)), position);
      };
      extend_all(in[b], 2 * p_.blocks[b].begin);
      for (int n : next_[b])
        extend_all(in[n], std::max(2 * p_.blocks[b].begin, 2 * p_.blocks[b].end - 1));
    }
  }

  void assign_memory() {
    std::vector<u32> offset(bytes_.size(), kNone);
    u32 size = 0;
    const auto lane_bytes = [](u8 bytes) -> u32 { return bytes == 1 ? 4 : bytes * kLanes; };
    for (u32 r = 0; r < kThreadValues; ++r, size += 4 * kLanes) offset[r] = size;
    // Predicates come first in memory, in a range of their own, so that vectors stay aligned.
    std::vector<u32> order;
    for (u32 r = kThreadValues; r < bytes_.size(); ++r)
      if (begin_[r] >= 0) order.push_back(r);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return begin_[a] < begin_[b]; });
    for (const bool predicates : {true, false}) {
      using Ending = std::pair<int, u32>;
      std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
      std::map<u32, std::vector<u32>> free;  // by size
      for (const u32 r : order) {
        if ((bytes_[r] == 1) != predicates) continue;
        while (!active.empty() && active.top().first < begin_[r]) {
          const u32 ended = active.top().second;
          free[lane_bytes(bytes_[ended])].push_back(offset[ended]);
          active.pop();
        }
        const u32 needed = lane_bytes(bytes_[r]);
        if (auto& list = free[needed]; !list.empty()) {
          offset[r] = list.back();
          list.pop_back();
        } else {
          offset[r] = size;
          size += needed;
        }
        active.emplace(end_[r], r);
      }
      size = (size + 63) / 64 * 64;
    }
    p_.register_bytes = std::max(size, 64u);
    u32 constants = 0;
    for (Constant& constant : p_.constants) {
      constant.offset = constants;
      constants += (lane_bytes(constant.bytes) + 63) / 64 * 64;
    }
    p_.constant_bytes = std::max(constants, 64u);
    const auto place = [&](u32& r) {
      r = r & kConstantBit ? p_.constants[r & ~kConstantBit].offset | kInConstants : offset[r];
    };
    for (Inst& inst : p_.code) for_operands(p_, inst, [&](u32& r, bool) { place(r); });
  }

  Program& p_;
  const std::vector<u8>& bytes_;
  const std::vector<int>& labels_;
  const std::vector<Cost>& costs_;
  std::vector<int> block_of_;
  std::vector<std::vector<int>> next_;
  std::vector<int> begin_, end_;
  std::vector<u32> tracked_;  // registers of wgmma: their numbers in GroupState
};

}  // namespace

void finish_program(Program& program, const std::vector<u8>& register_bytes,
                    const std::vector<int>& label_positions, const std::vector<Cost>& costs) {
  Flow(program, register_bytes, label_positions, costs).run();
}

}  // namespace ado::emulator
