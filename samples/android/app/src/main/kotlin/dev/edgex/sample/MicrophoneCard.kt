package dev.edgex.sample

import android.Manifest
import android.app.Activity
import android.content.pm.PackageManager
import android.view.LayoutInflater
import android.view.ViewGroup
import android.widget.Button
import android.widget.TextView
import dev.edgex.model.InputInfo
import dev.edgex.model.tensor.elementCount

/** Sound that is recorded when a button is pressed, and not before: the permission is asked for then, and the card says what for. */
class MicrophoneCard(
    private val activity: Activity,
    parent: ViewGroup,
    private val input: InputInfo,
    private val model: ModelRunner,
    private val at: Int,
) : InputCard {
    private val view = LayoutInflater.from(activity).inflate(R.layout.microphone_card, parent, false)
    private val note = view.findViewById<TextView>(R.id.note)

    init {
        view.findViewById<TextView>(R.id.spec).text = input.spec.toString()
        note.text = activity.getString(R.string.microphone_why, formatSeconds(secondsOf()))
        view.findViewById<Button>(R.id.record).setOnClickListener {
            val isAllowed = activity.checkSelfPermission(Manifest.permission.RECORD_AUDIO) == PackageManager.PERMISSION_GRANTED
            if (isAllowed) onAnswer(true) else activity.requestPermissions(arrayOf(Manifest.permission.RECORD_AUDIO), REQUEST)
        }
        view.findViewById<Button>(R.id.example).setOnClickListener { model.choices[at] = InputChoice.Golden }
        parent.addView(view)
    }

    fun onAnswer(isAllowed: Boolean) {
        if (isAllowed) model.runOnSound(at) else note.setText(R.string.microphone_refused)
    }

    override fun commit() = true

    private fun secondsOf(): Double = elementCount(input.spec.shapeFor(model.sizes)).toDouble() / model.sampleRate

    companion object {
        const val REQUEST = 2
    }
}
