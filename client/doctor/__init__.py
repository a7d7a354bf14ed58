"""What `doctor` looks at: versions, tools, devices and shares, each tried out for real."""
