package capture

// LeaseName is the Lease that says which capture leads, in the release namespace.
const LeaseName = "nodekeep-capture"
