package dev.edgex.sample

import android.app.Activity
import android.content.Intent
import android.content.pm.PackageManager.PERMISSION_GRANTED
import android.os.Bundle
import android.view.View
import android.view.ViewGroup
import android.widget.Button
import android.widget.ProgressBar
import android.widget.TextView
import dev.edgex.model.ModelManifest
import java.io.IOException
import org.json.JSONException

/** The Run screen: whether this device computes as eager PyTorch did, the inputs, and what the model makes of them. */
class MainActivity : Activity() {
    private var runner: ModelRunner? = null
    private var picker: PictureCard? = null
    private var microphone: MicrophoneCard? = null
    private val cards = ArrayList<InputCard>()
    private lateinit var manifest: ModelManifest
    private lateinit var results: ResultCards
    private val onState: (RunState) -> Unit = { show(it) }

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.main)
        findViewById<View>(R.id.root).padForBars()
        try {
            manifest = sample.manifest
        } catch (error: JSONException) {
            return showBroken(error)
        } catch (error: IOException) {
            return showBroken(error)
        }
        val model = sample.runner
        runner = model
        findViewById<TextView>(R.id.subtitle).text =
            getString(R.string.model_line, manifest.model.name, manifest.model.precision, formatBytes(manifest.model.fileBytes))
        findViewById<Button>(R.id.benchmark).setOnClickListener { startActivity(Intent(this, BenchmarkActivity::class.java)) }
        findViewById<Button>(R.id.details).setOnClickListener { startActivity(Intent(this, DetailsActivity::class.java)) }
        findViewById<Button>(R.id.prove).setOnClickListener { model.prove() }
        findViewById<Button>(R.id.run).setOnClickListener { if (inputsAreRight()) model.run() }
        findViewById<Button>(R.id.stop).setOnClickListener { model.stop() }
        results = ResultCards(findViewById(R.id.results), manifest)
        addInputs(findViewById(R.id.inputs), model)
    }

    private fun addInputs(parent: ViewGroup, model: ModelRunner) {
        if (manifest.generation != null) {
            val hint = if (manifest.generation?.tokenizer == null) R.string.ids_hint else R.string.prompt_hint
            cards += TextCard(parent, hint, model.prompt) { model.prompt = it }
            return
        }
        if (manifest.text != null) {
            cards += TextCard(parent, R.string.text_hint, (model.choices.first() as? InputChoice.Text)?.text, model::useText)
            return
        }
        if (manifest.dynamicDims.isNotEmpty()) cards += SizesCard(parent, manifest.dynamicDims, model)
        manifest.inputs.forEachIndexed { at, input ->
            cards += when (input) {
                manifest.imageInput -> PictureCard(this, parent, input, model, at).also { picker = it }
                manifest.soundInput -> MicrophoneCard(this, parent, input, model, at).also { microphone = it }
                else -> TensorCard(parent, input, model, at)
            }
        }
    }

    private fun inputsAreRight(): Boolean = cards.all { it.commit() }

    override fun onStart() {
        super.onStart()
        runner?.let {
            it.state.watch(onState)
            it.proveOnce()
        }
    }

    override fun onStop() {
        cards.forEach { it.commit() }
        runner?.state?.unwatch(onState)
        super.onStop()
    }

    override fun onActivityResult(requestCode: Int, resultCode: Int, data: Intent?) {
        super.onActivityResult(requestCode, resultCode, data)
        val uri = data?.data ?: return
        if (requestCode == PictureCard.REQUEST && resultCode == RESULT_OK) picker?.onPicked(uri)
    }

    override fun onRequestPermissionsResult(requestCode: Int, permissions: Array<out String>, grantResults: IntArray) {
        super.onRequestPermissionsResult(requestCode, permissions, grantResults)
        if (requestCode == MicrophoneCard.REQUEST) microphone?.onAnswer(grantResults.firstOrNull() == PERMISSION_GRANTED)
    }

    private fun show(state: RunState) {
        findViewById<ProgressBar>(R.id.busy).visibility = if (state.isBusy) View.VISIBLE else View.INVISIBLE
        findViewById<Button>(R.id.run).isEnabled = !state.isBusy
        findViewById<Button>(R.id.prove).isEnabled = !state.isBusy
        showText(R.id.error, state.error)
        findViewById<TextView>(R.id.parity).text = ParityText(resources).describe(state.parity)
        cards.forEach { it.refresh() }
        val isWriting = state.isBusy && state.written != null && state.written.finish == null
        findViewById<Button>(R.id.stop).visibility = if (isWriting) View.VISIBLE else View.GONE
        results.show(state.result)
        state.written?.let(results::show)
    }

    private fun showBroken(error: Exception) {
        showText(R.id.error, getString(R.string.broken, error.message))
        for (id in listOf(R.id.benchmark, R.id.details, R.id.prove, R.id.run)) findViewById<Button>(id).isEnabled = false
    }

    private fun showText(id: Int, text: String?) {
        val view = findViewById<TextView>(id)
        view.text = text
        view.visibility = if (text == null) View.GONE else View.VISIBLE
    }
}
