#include "generate/ids.h"

#include <istream>

#include "data/tensors.h"

namespace edgex {

namespace {

constexpr size_t kMostDigits = 10, kMostIds = 10'000'000;

bool is_digit(int letter) { return letter >= '0' && letter <= '9'; }

bool separates(int letter) { return letter == ',' || letter == ' ' || (letter >= '\t' && letter <= '\r'); }

// `at` is how many bytes come before the letter.
BadInput strange(const std::string& where, int letter, size_t at) {
  if (letter == EOF) return BadInput(where + ": a number ends early");
  const bool shown = letter > ' ' && letter < 0x7f;
  const std::string name = shown ? std::string{'"', static_cast<char>(letter), '"'} : "a byte " + std::to_string(letter);
  return BadInput(where + ": " + name + " at byte " + std::to_string(at + 1) + ": ids are whole numbers");
}

}  // namespace

std::vector<int64_t> read_ids(std::istream& stream, const std::string& where, const IdLimits& limits) {
  std::vector<int64_t> ids;
  size_t at = 0;  // bytes read
  for (int letter = stream.get(); letter != EOF;) {
    if (separates(letter)) {
      letter = stream.get(), at++;
      continue;
    }
    std::string digits(letter == '-' ? "-" : "");
    if (letter == '-') letter = stream.get(), at++;
    if (!is_digit(letter)) throw strange(where, letter, at);
    while (is_digit(letter) && digits.size() <= kMostDigits) {
      digits += static_cast<char>(letter);
      letter = stream.get(), at++;
    }
    const bool fits = digits[0] != '-' && digits.size() <= kMostDigits;
    const int64_t id = fits ? std::stoll(digits) : -1;
    if (!fits || (limits.vocabulary && id >= *limits.vocabulary))
      throw BadInput(where + ": " + digits + (digits.size() > kMostDigits ? "…" : "") + ": no such id" +
                     (limits.vocabulary ? " in a vocabulary of " + std::to_string(*limits.vocabulary) : ""));
    if (letter != EOF && !separates(letter)) throw strange(where, letter, at);
    ids.push_back(id);
    if (limits.count && static_cast<int64_t>(ids.size()) > *limits.count)
      throw BadInput(where + ": more ids than the context of " + std::to_string(*limits.count) + " holds");
    if (ids.size() > kMostIds) throw BadInput(where + ": too many ids");
  }
  if (stream.bad()) throw BadInput("cannot read " + where);
  return ids;
}

}  // namespace edgex
