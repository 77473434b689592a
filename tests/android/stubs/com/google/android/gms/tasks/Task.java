package com.google.android.gms.tasks;

public abstract class Task<T> {}
