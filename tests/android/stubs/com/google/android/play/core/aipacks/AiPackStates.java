package com.google.android.play.core.aipacks;

public abstract class AiPackStates {}
