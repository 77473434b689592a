package dev.edgex.sample

import android.app.Activity
import android.os.Bundle
import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import dev.edgex.model.ModelManifest
import dev.edgex.model.engine.modelEngine
import java.util.Locale

/** What the model is: inputs and outputs, backends, versions, digests, licences. */
class DetailsActivity : Activity() {
    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.details)
        findViewById<View>(R.id.root).padForBars()
        val list = findViewById<ViewGroup>(R.id.rows)
        for ((label, text) in rows(sample.manifest)) {
            val row = LayoutInflater.from(this).inflate(R.layout.detail_row, list, false)
            row.findViewById<TextView>(R.id.label).setText(label)
            row.findViewById<TextView>(R.id.value).text = text
            list.addView(row)
        }
    }

    private fun rows(manifest: ModelManifest): List<Pair<Int, String>> {
        val model = manifest.model
        val sizes = getString(R.string.size_line, formatBytes(model.fileBytes), formatBytes(model.plannedArenaBytes))
        val backends = model.backends.groupingBy { it }.eachCount().map { (name, count) -> "$name × $count" }
        val portable = listOfNotNull(model.portableOperators?.let { resources.getQuantityString(R.plurals.portable, it, it) })
        val replayed = getString(R.string.golden_line, manifest.golden.size, manifest.goldenLeftOut)
        val versions = manifest.versions
        return listOfNotNull(
            R.string.detail_model to "${model.name} · ${model.target} · ${model.precision}",
            model.description?.let { R.string.detail_description to it },
            model.parameters?.let { R.string.detail_parameters to String.format(Locale.getDefault(), "%,d", it) },
            R.string.detail_inputs to manifest.inputs.joinToString("\n") { "${it.spec.name}: ${it.spec}" },
            R.string.detail_outputs to manifest.outputs.joinToString("\n") { "${it.spec.name}: ${it.spec}" },
            R.string.detail_state to getString(if (model.isStateful) R.string.state_yes else R.string.state_no),
            R.string.detail_backends to (backends + portable).joinToString("\n"),
            R.string.detail_size to sizes,
            R.string.detail_golden to replayed,
            R.string.detail_versions to getString(
                R.string.versions_line, versions.edgex, modelEngine.label, versions.exporter, versions.library, versions.aar,
            ),
            R.string.detail_sha256 to model.sha256,
            R.string.detail_digest to model.digest,
            R.string.detail_licences to getString(R.string.licences),
        )
    }
}
