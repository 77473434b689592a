#include "interface/flags.h"

namespace edgex {

int64_t parse_count(const std::string& flag, const std::string& text) {
  if (text == "auto") return -1;
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
    throw BadInput(flag + " " + text + ": expected a number");
  return std::stoll(text);
}

double parse_real(const std::string& flag, const std::string& text) {
  size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size()) throw BadInput(flag + " " + text + ": expected a number");
  return value;
}

namespace {

Bound parse_bound(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    const int64_t size = parse_sizes(text).at(0);
    return {"", size, size};
  }
  const size_t dots = text.find("..", equals);
  if (dots == std::string::npos) throw BadInput("--input: expected NAME=MIN..MAX, not " + text);
  return {text.substr(0, equals), parse_count("--input", text.substr(equals + 1, dots - equals - 1)),
          parse_count("--input", text.substr(dots + 2))};
}

// From the right: names may hold colons. Dimensions are separated by `,` so that their names may hold an `x`.
InputSpec parse_input(const std::string& text) {
  const size_t last = text.rfind(':');
  const size_t middle = last == std::string::npos || last == 0 ? std::string::npos : text.rfind(':', last - 1);
  if (middle == std::string::npos) throw BadInput("--input " + text + ": expected NAME:DTYPE:DIMS");
  InputSpec spec{text.substr(0, middle), parse_dtype(text.substr(middle + 1, last - middle - 1)), {}};
  const std::string dims = text.substr(last + 1);
  if (dims == "scalar") return spec;
  for (size_t at = 0; at <= dims.size();) {
    const size_t end = std::min(dims.find(',', at), dims.size());
    spec.dims.push_back(parse_bound(dims.substr(at, end - at)));
    at = end + 1;
  }
  return spec;
}

}  // namespace

bool parse_program_flag(const std::string& flag, const std::string& value, Options& into) {
  if (flag == "--model") into.model = value;
  else if (flag == "--method") into.method = value;
  else if (flag == "--sha256") into.sha256 = value;
  else if (flag == "--run-id") into.run_id = value;
  else if (flag == "--plugin") into.plugins.push_back(value);
  else if (flag == "--input") into.specs.push_back(parse_input(value));
  else if (flag == "--output") into.output_names.push_back(value);
  else if (flag == "--threads") into.threads = parse_count(flag, value);
  else return false;
  return true;
}

void check_program_flags(const Options& options) {
  if (options.model.empty()) throw BadInput("--model is missing");
  if (options.threads < 0) throw BadInput("--threads: expected a number");
}

}  // namespace edgex
