#include "run/open.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include "data/sha256.h"
#include "interface/answer.h"

namespace edgex {

namespace {

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void check_file(const Options& options, bool tells) {
  const auto started = std::chrono::steady_clock::now();
  struct stat status {};
  if (stat(options.model.c_str(), &status) != 0)
    throw BadInput("cannot read " + options.model + ": " + std::strerror(errno));
  const std::string found = options.hash ? hash_file(options.model) : "";
  if (tells) Line("model").text("sha256", found).whole("bytes", status.st_size).real("seconds", since(started));
  if (!options.sha256.empty() && options.hash && found != options.sha256)
    throw BadInput(options.model + " is damaged: its SHA-256 is " + found + ", not " + options.sha256);
}

}  // namespace

void tell_start(const Options& options) {
  // Processor time until here: what loading and linking the libraries has cost.
  const double startup = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  Line("start").text("run_id", options.run_id).real("seconds", startup).whole("peak_rss_bytes", peak_rss_bytes());
}

Opened open_model(const Options& options, bool tells) {
  const auto started = std::chrono::steady_clock::now();
  check_file(options, tells);
  if (tells) Line("progress").text("stage", "load").text("detail", "the program");
  Opened opened{std::make_unique<Model>(options)};
  const LoadSeconds load = opened.model->load();
  opened.seconds = since(started);
  if (tells)
    Line("loaded")
        .real("program_seconds", load.program)
        .real("method_seconds", load.method)
        .whole("threads", opened.model->threads())
        .whole("peak_rss_bytes", peak_rss_bytes());
  return opened;
}

}  // namespace edgex
