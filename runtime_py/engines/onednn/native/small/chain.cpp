#include "small/chain.h"

#include <algorithm>
#include <array>
#include <utility>

#include "library/onednn.h"

namespace edgex {

namespace {

constexpr size_t kAlignment = 64, kMostOfOne = 64;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Chain final : public OwnOperator {
 public:
  Chain(std::vector<Link> links, size_t given, const std::vector<size_t>& made_bytes) : links_(std::move(links)), given_(given) {
    for (size_t bytes : made_bytes) {
      offsets_.push_back(end_);
      end_ += round_up(bytes);
    }
    for (const Link& link : links_) {
      if (link.tensors.size() > kMostOfOne) throw OneDnnError("an operator of too many tensors");
      most_ = std::max(most_, link.own->scratch_bytes());
    }
  }

  size_t scratch_bytes() const override { return end_ + most_; }

  bool has_packed() const override {
    return std::any_of(links_.begin(), links_.end(), [](const Link& link) { return link.own->has_packed(); });
  }

  void run(std::byte* const* tensors, std::byte* scratch) const override {
    std::array<std::byte*, kMostOfOne> own;
    for (const Link& link : links_) {
      for (size_t i = 0; i < link.tensors.size(); i++) {
        const size_t number = link.tensors[i];
        own[i] = number < given_ ? tensors[number] : scratch + offsets_[number - given_];
      }
      link.own->run(own.data(), scratch + end_);
    }
  }

 private:
  std::vector<Link> links_;
  size_t given_;
  std::vector<size_t> offsets_;
  size_t end_ = 0, most_ = 0;  // the links share the memory behind
};

}  // namespace

std::unique_ptr<OwnOperator> make_chain(std::vector<Link> links, size_t given, const std::vector<size_t>& made_bytes) {
  return std::make_unique<Chain>(std::move(links), given, made_bytes);
}

}  // namespace edgex
