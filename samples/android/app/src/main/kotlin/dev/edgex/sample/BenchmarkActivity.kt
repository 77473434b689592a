package dev.edgex.sample

import android.app.Activity
import android.content.Intent
import android.os.Bundle
import android.view.View
import android.view.WindowManager
import android.widget.ArrayAdapter
import android.widget.Button
import android.widget.EditText
import android.widget.ProgressBar
import android.widget.Spinner
import android.widget.TextView
import dev.edgex.model.engine.modelEngine
import dev.edgex.model.measure.BenchmarkRequest
import dev.edgex.model.measure.BenchmarkResult
import dev.edgex.model.measure.BenchmarkSettings
import dev.edgex.model.measure.Stage
import dev.edgex.sample.job.Task

/**
 * The benchmark with its settings.
 *
 * `adb shell am start -n APPLICATION/dev.edgex.sample.BenchmarkActivity --es run_id ID --es runs 100` starts it at once,
 * for devices on which `am instrument` is not allowed. Only the shell may: the manifest asks for a permission that
 * ordinary apps cannot hold.
 */
class BenchmarkActivity : Activity() {
    private val onState: (BenchmarkState) -> Unit = { show(it) }
    private lateinit var mode: Spinner

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.benchmark)
        findViewById<View>(R.id.root).padForBars()
        mode = findViewById(R.id.load_mode)
        val labels = modelEngine.loadModes.map { it.label }
        mode.adapter = ArrayAdapter(this, android.R.layout.simple_spinner_item, labels).apply {
            setDropDownViewResource(android.R.layout.simple_spinner_dropdown_item)
        }
        findViewById<Button>(R.id.start).setOnClickListener { startOrCancel() }
        findViewById<Button>(R.id.share).setOnClickListener { share() }
        if (savedInstanceState == null && intent.hasExtra(RUN_ID)) startAsAsked()
    }

    override fun onStart() {
        super.onStart()
        sample.benchmark.state.watch(onState)
    }

    override fun onStop() {
        sample.benchmark.state.unwatch(onState)
        super.onStop()
    }

    private fun startAsAsked() {
        try {
            val task = HeadlessTask(sample) { intent.getStringExtra(it) }
            if (task.task == Task.BENCHMARK) sample.benchmark.start(task.request) else sample.benchmark.serve(task)
        } catch (error: IllegalArgumentException) {
            sample.benchmark.fail(error)
        }
    }

    private fun startOrCancel() {
        val runner = sample.benchmark
        if (runner.state.value.isRunning) return runner.cancel()
        val runs = number(R.id.runs, BenchmarkSettings.RUNS)
        val threads = number(R.id.threads, BenchmarkSettings.THREADS)
        val warmupText = findViewById<EditText>(R.id.warmup).text.toString()
        val warmup = if (warmupText.isBlank()) null else number(R.id.warmup, BenchmarkSettings.WARMUP)
        if (runs == null || threads == null || (warmup == null && warmupText.isNotBlank())) return
        val settings = BenchmarkSettings(runs, warmup, threads, modelEngine.loadModes[mode.selectedItemPosition])
        runner.start(BenchmarkRequest(MANUAL, settings, modelSha256 = null))
    }

    /** Null, with a message at the field, where it does not hold a number in the range. */
    private fun number(id: Int, range: IntRange): Int? {
        val field = findViewById<EditText>(id)
        val value = field.text.toString().toIntOrNull()?.takeIf { it in range }
        field.error = if (value == null) getString(R.string.size_outside, range.first, range.last) else null
        return value
    }

    private fun show(state: BenchmarkState) {
        // A screen that turns off lowers the clock speeds.
        val keepOn = WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON
        if (state.isRunning) window.addFlags(keepOn) else window.clearFlags(keepOn)
        findViewById<Button>(R.id.start).setText(if (state.isRunning) R.string.cancel else R.string.start)
        for (id in listOf(R.id.runs, R.id.warmup, R.id.threads, R.id.load_mode)) {
            findViewById<View>(id).isEnabled = !state.isRunning
        }
        findViewById<ProgressBar>(R.id.progress).apply {
            visibility = if (state.isRunning) View.VISIBLE else View.INVISIBLE
            isIndeterminate = state.total == 0
            max = state.total
            progress = state.done
        }
        findViewById<TextView>(R.id.status).text = describe(state)
        val result = state.result
        findViewById<View>(R.id.result).visibility = if (result == null) View.GONE else View.VISIBLE
        if (result != null) showResult(result, state)
    }

    private fun showResult(result: BenchmarkResult, state: BenchmarkState) {
        val text = BenchmarkText(resources)
        findViewById<TextView>(R.id.headline).text = text.headline(result)
        findViewById<TextView>(R.id.figures).text = text.figures(result)
        findViewById<TextView>(R.id.parity).text = ParityText(resources).describe(result.parity)
        findViewById<TextView>(R.id.warnings).apply {
            this.text = state.warnings.joinToString("\n") { "⚠ ${it.text}" }
            visibility = if (state.warnings.isEmpty()) View.GONE else View.VISIBLE
        }
        val samples = result.measurement.rounds.flatMap { it.asList() }.toDoubleArray()
        findViewById<HistogramView>(R.id.histogram).show(samples, text.histogram(result))
    }

    private fun describe(state: BenchmarkState): String = when {
        state.error != null -> state.error
        state.stage == null -> ""
        else -> {
            val stage = getString(STAGES.getValue(state.stage))
            if (state.total > 0) getString(R.string.stage_of, stage, state.done, state.total) else stage
        }
    }

    private fun share() {
        val state = sample.benchmark.state.value
        val result = state.result ?: return
        val intent = Intent(Intent.ACTION_SEND).setType("text/plain")
            .putExtra(Intent.EXTRA_SUBJECT, getString(R.string.share_subject, sample.manifest.model.name))
            .putExtra(Intent.EXTRA_TEXT, BenchmarkText(resources).share(result, state.json.orEmpty()))
        startActivity(Intent.createChooser(intent, getString(R.string.share)))
    }

    private companion object {
        const val RUN_ID = "run_id"
        const val MANUAL = "manual"

        val STAGES = mapOf(
            Stage.COPY to R.string.stage_copy,
            Stage.LOAD to R.string.stage_load,
            Stage.FIRST_RUN to R.string.stage_first,
            Stage.WARM_UP to R.string.stage_warm_up,
            Stage.MEASURE to R.string.stage_measure,
            Stage.PARITY to R.string.stage_parity,
            Stage.MEMORY to R.string.stage_memory,
        )
    }
}
