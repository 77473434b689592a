package dev.edgex.sample

import dev.edgex.model.measure.BenchmarkRequest
import dev.edgex.model.measure.BenchmarkRun
import dev.edgex.model.measure.ProgressListener
import dev.edgex.model.measure.Report
import dev.edgex.model.writeJson
import dev.edgex.sample.job.AppInfo
import dev.edgex.sample.job.JobAnswer
import dev.edgex.sample.job.JobRun
import dev.edgex.sample.job.Task

/** A task from outside, whoever brings it: instrumentation, or the screen that stands in for it. */
class HeadlessTask(private val application: SampleApplication, argument: (String) -> String?) {
    val task = Task.parse(argument("task"))
    val request = BenchmarkRequest.parse(argument)

    private val platform get() = application.platform

    /** Does it, leaves the answer as a file too, and gives it as JSON. */
    fun execute(progress: ProgressListener): String = when (task) {
        Task.BENCHMARK -> benchmark(progress)
        Task.DESCRIBE -> {
            val json = writeJson(JobAnswer.describe(request.runId, describeApp()))
            JobFolder(application, request.runId).writeAnswer(json)
            json
        }
        Task.JOB, Task.COLD -> runJob(progress)
    }

    /** Leaves word of a failure where the answer would be; for whoever waits for it. */
    fun fail(error: Throwable) {
        if (task != Task.BENCHMARK) JobFolder(application, request.runId).writeAnswer(writeJson(JobAnswer.error(request.runId, error)))
    }

    private fun benchmark(progress: ProgressListener): String {
        val result = BenchmarkRun(application.manifest, platform, progress).execute(request)
        val json = writeJson(Report.toJson(application.manifest, platform.describeDevice(), result))
        platform.reportFolder()?.let { ReportFile.write(it, request.runId, json) }
        return json
    }

    private fun runJob(progress: ProgressListener): String {
        val folder = JobFolder(application, request.runId)
        // An answer that is there belongs to the task before this one.
        folder.file("answer.json").delete()
        val job = folder.readJob()
        require(job.runId == request.runId) { "the job is of run ${job.runId}, asked for is ${request.runId}" }
        val run = JobRun(job, JobFiles(folder, job, platform), coldOnly = task == Task.COLD, progress = progress)
        val answer = JobAnswer.toJson(request.runId, task, job, describeApp(), platform.describeDevice(), run.execute())
        return writeJson(answer).also { folder.writeAnswer(it) }
    }

    private fun describeApp(): AppInfo {
        platform.loadLibrary()
        val versions = application.manifest.versions
        return AppInfo(
            applicationId = application.packageName,
            engine = versions.engine,
            version = versions.aar,
            flavor = versions.flavor,
            edgex = versions.edgex,
            backends = platform.registeredBackends(),
            isDebuggable = platform.isDebuggable,
        )
    }
}
